/* make_store.c - writes a store for tests of the explorer, the same in every run.
 *
 *   make_store FILE [SNAPSHOTS [NODES [bare|recorded|crowd|held]]]
 *
 * bare: nothing is worked out; recorded: who allocated is known but in the first snapshot; crowd:
 * many more globals, at uneven times; held: with holders.
 */
#include "drawing.h"

#include "store/store.h"

#include <string.h>

static unsigned argument(int argc, char **argv, int i, unsigned other)
{
    uint64_t value;
    return i < argc && hx_parse_u64(argv[i], &value) ? (unsigned)value : other;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    unsigned snapshots = argument(argc, argv, 2, 4), n = argument(argc, argv, 3, 60);
    bool bare = argc > 4 && strcmp(argv[4], "bare") == 0;
    struct hx_analysis analysis = {.scheme = hx_schemes[0], .max_set = 8, .threads = 1};
    bool recorded = argc > 4 && strcmp(argv[4], "recorded") == 0;
    bool crowd = argc > 4 && strcmp(argv[4], "crowd") == 0;
    bool held = argc > 4 && strcmp(argv[4], "held") == 0;
    analysis.hold.holders = held;
    hx_store *store;
    must(hx_store_append(argv[1], &store));
    for (unsigned number = 1; number <= snapshots; number++) {
        int64_t stored;
        struct hx_snapshot *snapshot = crowd  ? draw_crowd(number, n)
                                       : held ? draw_held(number, n)
                                              : draw_snapshot(number, n);
        if (recorded && number > 1)
            draw_recording(snapshot, number);
        must(hx_store_add(store, snapshot, bare ? NULL : &analysis, NULL, &stored));
        hx_snapshot_destroy(snapshot);
    }
    must(hx_store_close(store));
    return 0;
}
