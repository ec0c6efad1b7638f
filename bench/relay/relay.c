/* The limit: a binary heap of events and nothing else. Arguments: peers, in flight, hops; the lists come in on stdin. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct { long time_us, serial; int at, left; } Event;
static Event *heap;
static long count;

static int before(const Event *a, const Event *b) {
    return a->time_us < b->time_us || (a->time_us == b->time_us && a->serial < b->serial);
}

static void put(Event event) {
    long at = count++;
    while (at && before(&event, &heap[(at - 1) / 2])) { heap[at] = heap[(at - 1) / 2]; at = (at - 1) / 2; }
    heap[at] = event;
}

static Event take(void) {
    Event first = heap[0], last = heap[--count];
    long at = 0;
    for (;;) {
        long child = 2 * at + 1;
        if (child >= count) break;
        if (child + 1 < count && before(&heap[child + 1], &heap[child])) child++;
        if (!before(&heap[child], &last)) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return first;
}

int main(int argc, char **argv) {
    int peers = atoi(argv[1]), in_flight = atoi(argv[2]), hops = atoi(argv[3]);
    int *onward = malloc(peers * sizeof(int)), *delay_us = malloc(peers * sizeof(int));
    heap = malloc((in_flight + 1) * sizeof(Event));
    for (int i = 0; i < peers; i++)
        if (scanf("%d %d", &onward[i], &delay_us[i]) != 2) return 1;
    clock_t begun = clock();
    long serial = 0;
    for (int i = 0; i < in_flight; i++) put((Event){delay_us[i], ++serial, onward[i], hops - 1});
    while (count) {
        Event event = take();
        if (event.left) put((Event){event.time_us + delay_us[event.at], ++serial, onward[event.at], event.left - 1});
    }
    printf("%f\n", (double)(clock() - begun) / CLOCKS_PER_SEC);
    return 0;
}
