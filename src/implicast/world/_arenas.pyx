# cython: language_level=3
"""Puts Python's small objects on pages of 2 MiB, where the system supports it (Linux, `madvise`).

A cast among a million peers touches objects all over ten gigabytes. With pages of 4 KiB most accesses also miss the
TLB. Allocations and their order stay the same, so that runs differ only in time.
"""

cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>

    #if defined(__linux__)
    #include <sys/mman.h>
    #endif

    #if defined(__linux__) && defined(MADV_HUGEPAGE)

    #define ARENA ((size_t)1 << 20)     /* what Python allocates at a time */
    #define OPENED ((size_t)32 << 20)   /* made accessible at a time: whole huge pages */
    #define HUGE ((size_t)2 << 20)
    #define ARENAS 65536                /* 64 GiB of addresses; memory backs only what is used */

    static char *room, *fresh, *usable;
    static uint32_t given_back[ARENAS];
    static uint32_t waiting;
    static char idle[ARENAS];

    static void *elsewhere(size_t size) {
        void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return at == MAP_FAILED ? NULL : at;
    }

    static void *take_arena(void *context, size_t size) {
        (void)context;
        if (size != ARENA)
            return elsewhere(size);
        if (waiting) {
            uint32_t number = given_back[--waiting];
            idle[number] = 0;
            return room + number * ARENA;
        }
        if (fresh == usable) {
            if (usable == room + ARENAS * ARENA || mprotect(usable, OPENED, PROT_READ | PROT_WRITE))
                return elsewhere(size);
            usable += OPENED;
        }
        fresh += ARENA;
        return fresh - ARENA;
    }

    static void give_arena(void *context, void *at, size_t size) {
        (void)context;
        if ((char *)at < room || (char *)at >= room + ARENAS * ARENA) {
            munmap(at, size);  /* allocated before, or elsewhere: Python's own arenas are mapped too */
            return;
        }
        uint32_t number = (uint32_t)(((char *)at - room) / ARENA);
        given_back[waiting++] = number;
        idle[number] = 1;
        if (idle[number ^ 1])  /* free the page only when both halves are idle: freeing half would split it */
            madvise(room + (number & ~1u) * ARENA, HUGE, MADV_DONTNEED);
    }

    static int huge_arenas(void) {
        if (room)
            return 1;
        size_t size = ARENAS * ARENA + HUGE;
        char *whole = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (whole == MAP_FAILED)
            return 0;
        char *at = (char *)(((uintptr_t)whole + HUGE - 1) & ~(uintptr_t)(HUGE - 1));
        if (madvise(at, ARENAS * ARENA, MADV_HUGEPAGE)) {  /* the system has no huge pages */
            munmap(whole, size);
            return 0;
        }
        room = fresh = usable = at;
        PyObjectArenaAllocator mine = {NULL, take_arena, give_arena};
        PyObject_SetArenaAllocator(&mine);
        return 1;
    }

    #else

    static int huge_arenas(void) { return 0; }

    #endif
    """
    bint huge_arenas()


def on_huge_pages() -> bool:
    """Use huge pages for new arenas; False if not supported. Existing objects stay where they are."""
    return huge_arenas()
