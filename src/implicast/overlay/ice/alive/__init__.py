"""ICE on ground that moves: peers join, leave, crash, freeze, and messages get lost (thesis section 7.2.4)."""
