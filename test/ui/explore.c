/* explore.c - the explorer on a store, without the rest of the program.
 *
 *   explore STORE [SCRIPT [EVERY_MS [SLOW_MS]]]
 *
 * Key `a` adds a drawn snapshot, which takes SLOW_MS; the fifth try fails. "-" for no script.
 * Where the store has a recording, one goes on. HX_UI_LIVE=no: there is only the store.
 */
#include "drawing.h"

#include "base/progress.h"
#include "store/query.h"
#include "ui/ui.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct live {
    hx_store *store;
    unsigned number, tries, slow_ms;
    bool recorded;
    struct hx_snapshot *memory; /* whose bytes are read */
};

static bool has_recording(hx_store *store)
{
    hx_rows *rows;
    bool more = false;
    must(hx_query_sql(store, "SELECT 1 FROM costs", &rows));
    must(hx_rows_next(rows, &more));
    hx_rows_end(rows);
    return more;
}

static void recording(void *context, struct hx_ui_recording *ret)
{
    const struct live *live = context;
    *ret = (struct hx_ui_recording){
        .events = 1234567 * (uint64_t)live->number,
        .lost = live->tries > 0 ? 12 * live->tries : 0,
        .ended = live->tries > 1,
    };
}

static hx_error *take(void *context, const struct hx_progress *progress, struct hx_snapshot **ret)
{
    struct live *live = context;
    if (++live->tries == 5)
        return hx_error_new(HX_E_GONE, "PID 4242", "what is stored stays", "has exited");
    for (unsigned ms = 0; ms < live->slow_ms; ms += 10) {
        hx_progress_at(progress, "copy", ms, live->slow_ms);
        if (hx_progress_cancelled(progress))
            return hx_error_cancelled("snapshot");
        usleep(10000);
    }
    *ret = draw_snapshot(++live->number, 60);
    if (live->recorded)
        draw_recording(*ret, live->number);
    return NULL;
}

/* The word at an address as the drawing would have it now: in some objects pointers have changed,
 * and what is no pointer is text. */
static uint64_t word_at(const struct hx_graph *graph, uint64_t address)
{
    static const char text[] = "heapx \x1b[31m\xff\xe6\x97\xa5 \0bytes; and so on\n";
    uint64_t word;
    hx_obj object = hx_graph_find(graph, address);
    memcpy(&word, text + address / 8 % 4 * 8, sizeof word);
    if (object == HX_NO_OBJ)
        return word;
    uint64_t offset = address - graph->addr[object];
    for (hx_eidx e = graph->fwd[object]; e < graph->fwd[object + 1]; e++) {
        if (hx_edge_offset(graph->edge[e]) != offset)
            continue;
        word = graph->addr[hx_edge_target(graph->edge[e])];
        if (graph->size[object] == 56 || offset == 72)
            return offset == 72 ? 0 : word ^ 0x1000;
        return hx_edge_kind_of(graph->edge[e]) == HX_EDGE_START ? word : word + 16;
    }
    return word;
}

/* Some pages cannot be read. */
static bool is_readable(uint64_t address)
{
    return address / 4096 % 16 != 7;
}

static hx_error *read_memory(void *context, uint64_t address, size_t n, uint8_t *ret, size_t *ret_n)
{
    const struct live *live = context;
    size_t done = 0;
    if (live->tries > 4)
        return hx_error_new(HX_E_GONE, "PID 4242", NULL, "has exited");
    for (; done < n && is_readable(address + done); done++) {
        uint64_t at = address + done, word = word_at(&live->memory->graph, at & ~(uint64_t)7);
        ret[done] = ((uint8_t *)&word)[at & 7];
    }
    *ret_n = done;
    return NULL;
}

static unsigned argument(int argc, char **argv, int i)
{
    uint64_t value;
    return i < argc && hx_parse_u64(argv[i], &value) ? (unsigned)value : 0;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    struct live live = {.number = 4, .slow_ms = argument(argc, argv, 4)};
    must(hx_store_append(argv[1], &live.store));
    live.recorded = has_recording(live.store);
    struct hx_analysis analysis = {.scheme = hx_schemes[0], .max_set = 8, .threads = 1};
    const char *wanted = getenv("HX_UI_LIVE");
    bool is_live = !wanted || strcmp(wanted, "no") != 0;
    struct hx_ui_options options = {
        .store = live.store,
        .title = argv[1],
        .script = argc > 2 && strcmp(argv[2], "-") != 0 ? argv[2] : NULL,
        .color = -1,
        .take = is_live ? take : NULL,
        .recording = is_live && live.recorded ? recording : NULL,
        .read = is_live ? read_memory : NULL,
        .context = &live,
        .analysis = &analysis,
        .every_ns = (uint64_t)argument(argc, argv, 3) * 1000000,
    };
    int64_t last;
    hx_error *error = hx_store_resolve(live.store, "last", &last);
    live.number = error ? 0 : (unsigned)last;
    hx_error_free(error);
    live.memory = draw_snapshot(live.number ? live.number : 1, 60);
    int64_t left;
    error = hx_ui_run(&options, &left);
    hx_snapshot_destroy(live.memory);
    hx_error *closing = hx_store_close(live.store);
    int status = error && error->kind == HX_E_CANCEL ? 130 : 0;
    if (status)
        hx_error_free(error);
    else
        must(error);
    must(closing);
    return status;
}
