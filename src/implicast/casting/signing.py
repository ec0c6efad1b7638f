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
CASTS_PER_S = Parameter(
    "casts_per_s", 0.0, "casts of one publisher that a station or a member takes in a second; 0: any number", 0, 1e6
)
CASTS_BURST = Parameter("casts_burst", 50, "casts of one publisher that are taken at once, where there is a limit",
                        1, 1_000_000)  # fmt: skip
AUDIENCE = Parameter(
    "audience_max", 0, "members that one station or publisher lets a cast select; 0: any number", 0, 1 << 20
)
TRUST = (SIGNED, SIGNATURES, PROTECTED, CASTS_PER_S, CASTS_BURST, AUDIENCE)
OWN_POLICY = ("casts_per_s", "casts_burst", "audience_max")
"""What nodes of one network may have set differently."""
