"""ICE: a surface, a torus of d dimensions, that all peers share out among themselves.

Theory of operation (thesis chapter 7). Every point of the surface has a code of 60 bits, and an
*extent* is the interval of all codes with one prefix. Each peer owns one extent, knows the extents
that share a face with it, and passes messages for a *tract* (a set of codes) on to nearer
neighbours. The layer above stores items at codes (`item_store.py`).

State of a peer, in the order in which the parts rest on each other (a part uses those above it):

    ownership       own extents with their status, and the claims around them; without input or output
    members         what is known of each peer: alive, suspect or lost; version, backups, round trip
    copies          complete copies of other owners' items, held as their backup
    backup_set      the backups of this owner, and the batches that wait for their acks
    exchange        heartbeats sent, claims learnt, peers corrected
    handoff         an extent on its way from this peer, and in `receiver` one on its way to it
    claiming        extents without an owner that this peer claims, until they are committed
    takeover        polls about silent owners
    joining         a place for this peer, and for others; `reclaim` after a crash
    routing         next hops, acks of hops, parked messages
    relocation      surplus extents, and leaving
    heartbeats      receives heartbeats, and learns from them
    gaps, watch     look for codes without an owner, and for silent neighbours, at each tick

`IceSurface` (`surface.py`) makes them and hands each what it needs. Parts report upwards through
callbacks named in their constructors. `FixedSurface` has ownership and routing alone.

Invariants, with assurance, except across a partition. At no time do two peers answer for one code.
Each code is held by a live peer, committed or not, or a live backup of a dead owner has a copy of
it. When nothing is pending the extents cover the surface and are disjoint, each peer owns one,
knows exactly the adjacent ones, and two backups have all its items.

An extent of a peer, from its side. A peer answers for committed extents alone, and only while a
backup has acknowledged it within `suspect_after_us`.

    status        entered by                             left by
    ------------  -------------------------------------  ------------------------------------------
    committed     HandoffCommit received; commit delay   HandoffOffer sent; a better claim; split
                  over and items at the backups; abort
    handing off   HandoffOffer sent                      HandoffPrepared: given up, HandoffCommit sent;
                                                         HandoffAbort or silence: committed, epoch +3
    provisional   last HandoffOffer received             HandoffCommit: committed; HandoffAbort: dropped;
                                                         death poll without veto: committed
    taken over    death poll without veto; gap;          commit delay over and items at the backups:
                  reclaimed extent                       committed; a better claim: dropped

A peer, as its neighbours see it.

    state         entered by                             left by
    ------------  -------------------------------------  ------------------------------------------
    alive         any message                            request given up; silence
    suspect       `suspect_after_us` of silence; a       any message: alive; `dead_after_us` and rank:
                  request given up                       the first backup polls (ConfirmDeath)
    dead          all votes are in, and none is a veto   a message of it: its claims are worse now
    lost          suspect                                any message; probed ever more rarely until then
    leaving       its heartbeat                          it has handed off all extents, and is gone

Who sends what when.

    Heartbeat, HeartbeatAck        each pair once a period; at each change to all neighbours
    FullStateRequest               to a peer whose version is not the known one
    ClaimUpdate                    to a peer whose claims are worse than known ones; answers FindOwner
    JoinRequest, Introduction      newcomer to introducer, routed to the owner of a random code
    LatencyProbe, LatencyReply     newcomer, if it looks for a place that is near
    HandoffOffer ... HandoffCommit sender and receiver of an extent; each step is repeated until answered
    BackupSnapshot, BackupDelta    owner to backups: all items once, then every change
    ConfirmDeath, DeathVote        backup of a silent owner to the peers around it
    FindOwner                      beside a gap; before a takeover without a copy; when reclaiming
    RelocationQuery, -Offer        owner of surplus extents, to find a peer that can take one
    HopAck                         for each hop of a routed message

Claims decide who owns a code: the larger epoch wins, at equal epochs the smaller address. Splitting
raises the epoch by 1, merging gives the largest plus 1, a handoff adds 2, its abort 3, a takeover
1. A claim of epoch 0 fills a gap and yields to every other one.

FIDELITY.md lists the differences from the thesis: the protocols are not in it, nor is any assurance.
"""
