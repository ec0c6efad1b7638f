"""What every design can be set to about trust."""

from implicast.language.parameters import Parameter

SIGNED = Parameter(
    "signed", False,
    "registrations are signed by their owners and casts by their publishers, checked where they are kept and where "
    "they are delivered; the default on a network",
)  # fmt: skip
SIGNATURES = Parameter(
    "signatures", "stand-in", "of signed words: real ones, or a stand-in with the same checks and sizes for large runs",
    choices=("ed25519", "stand-in"),
)  # fmt: skip
PROTECTED = Parameter(
    "protected", "",
    "what only the authority lets peers say of themselves, where words are signed: attributes, and prefixes of tags "
    "with a star, like role,staff:*",
)  # fmt: skip
TRUST = (SIGNED, SIGNATURES, PROTECTED)
