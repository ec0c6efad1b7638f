"""The states of a node of the linked ring.

    state   meaning                  next
    OUT     not a member             INS on an insertion request; IN if it founds a ring
    INS     own insertion unsettled  IN on Ack or proof; OUT on a refusal, or if its target is lost
    IN      member                   DEL on a deletion request; OUT if it leaves without one
    DEL     own deletion unsettled   OUT on Ack; IN on a refusal, or if its target is lost

In INS and DEL the right pointer is frozen.
"""

OUT, INS, IN, DEL = "out", "ins", "in", "del"
