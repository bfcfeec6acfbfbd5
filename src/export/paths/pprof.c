/* pprof.c - profile.proto, gzipped: what `go tool pprof` and the stores of continuous profiles
 * read.
 *
 * Some of these readers have bounds, so that the file stays below them: PROFILE_BYTES unpacked,
 * PROFILE_SAMPLES samples; what is merged for it is told. Ids are 1, 2, ... in the order of their
 * tables. A path is written from its leaf to its root.
 */
#include "export/paths/paths.h"
#include "export/timepoints.h"

#include "base/cleanup.h"
#include "base/index.h"
#include "store/query.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define PROFILE_BYTES   ((4u << 20) - 1)
#define PROFILE_SAMPLES 16000

/* Fields of the messages that are written. */
enum {
    PROFILE_TYPE = 1,
    PROFILE_SAMPLE,
    PROFILE_MAPPING,
    PROFILE_LOCATION,
    PROFILE_FUNCTION,
    PROFILE_STRING,
    PROFILE_TIME = 9,
    PROFILE_DURATION,
    PROFILE_PERIOD_TYPE,
    PROFILE_PERIOD,
    PROFILE_COMMENT,
    PROFILE_DEFAULT_TYPE
};
enum { TYPE_TYPE = 1, TYPE_UNIT };
enum { SAMPLE_LOCATIONS = 1, SAMPLE_VALUES };
enum {
    MAPPING_ID = 1,
    MAPPING_FILE = 5,
    MAPPING_BUILD_ID,
    MAPPING_HAS_FUNCTIONS,
    MAPPING_HAS_FILES,
    MAPPING_HAS_LINES,
    MAPPING_HAS_INLINED
};
enum { LOCATION_ID = 1, LOCATION_MAPPING, LOCATION_LINE = 4 };
enum { LINE_FUNCTION = 1, LINE_LINE };
enum { FUNCTION_ID = 1, FUNCTION_NAME, FUNCTION_SYMBOL, FUNCTION_FILE };

/* --- the wire -------------------------------------------------------------------------- */

static void put_varint(struct hx_text *out, uint64_t value)
{
    char bytes[10];
    size_t n = 0;
    for (; value >= 0x80; value >>= 7)
        bytes[n++] = (char)(value | 0x80);
    bytes[n++] = (char)value;
    hx_text_putn(out, bytes, n);
}

/* Zero is what is not written. */
static void put_number(struct hx_text *out, unsigned field, uint64_t value)
{
    if (!value)
        return;
    put_varint(out, field << 3);
    put_varint(out, value);
}

static void put_bytes(struct hx_text *out, unsigned field, const char *bytes, size_t n)
{
    put_varint(out, field << 3 | 2);
    put_varint(out, n);
    hx_text_putn(out, bytes, n);
}

/* Appends a message that was made aside, which is empty then. */
static void put_message(struct hx_text *out, unsigned field, struct hx_text *message)
{
    put_bytes(out, field, hx_text_str(message), message->n);
    out->failed |= message->failed;
    hx_text_clear(message);
}

/* --- tables ------------------------------------------------------------------------------ */

/* Texts and functions get numbers in the order in which they are met. */
struct function {
    uint32_t name, symbol, file; /* texts */
};

struct module {
    uint32_t name, path, build_id; /* texts; name: as frames say it */
};

struct profile {
    const struct hx_export *export;
    struct hx_paths *paths;
    struct hx_timepoints timepoints;
    HX_VEC(char *) texts;
    HX_VEC(struct function) functions;
    HX_VEC(struct module) modules;
    struct hx_index text_index, function_index;
    uint32_t *location; /* of each frame: its id; 0: not used so far */
    uint32_t locations;
    struct hx_text samples, tables, out, part, inner; /* the two last: scratch */
};

static void deinit_profile(struct profile *p)
{
    hx_timepoints_deinit(&p->timepoints);
    for (size_t i = 0; i < p->texts.n; i++)
        free(p->texts.v[i]);
    hx_vec_free(&p->texts);
    hx_vec_free(&p->functions);
    hx_vec_free(&p->modules);
    hx_index_free(&p->text_index);
    hx_index_free(&p->function_index);
    free(p->location);
    hx_text_free(&p->samples);
    hx_text_free(&p->tables);
    hx_text_free(&p->out);
    hx_text_free(&p->part);
    hx_text_free(&p->inner);
}

static hx_error *number_text(struct profile *p, const char *s, uint32_t *ret)
{
    uint64_t hash = hx_hash_bytes(s, strlen(s));
    for (uint32_t at = 0; hx_index_next(&p->text_index, hash, &at, ret);)
        if (strcmp(p->texts.v[*ret], s) == 0)
            return NULL;
    char *copy = strdup(s);
    if (!copy || !hx_vec_push(&p->texts, copy)) {
        free(copy);
        return hx_error_nomem();
    }
    *ret = (uint32_t)p->texts.n - 1;
    return hx_index_add(&p->text_index, hash, *ret);
}

/* *ret is its id. */
static hx_error *number_function(struct profile *p, const struct function *f, uint32_t *ret)
{
    uint64_t hash = hx_hash_bytes(f, sizeof *f);
    for (uint32_t at = 0, i; hx_index_next(&p->function_index, hash, &at, &i);)
        if (memcmp(&p->functions.v[i], f, sizeof *f) == 0) {
            *ret = i + 1;
            return NULL;
        }
    HX_NEED(hx_vec_push(&p->functions, *f));
    *ret = (uint32_t)p->functions.n;
    return hx_index_add(&p->function_index, hash, *ret - 1);
}

/* --- modules ----------------------------------------------------------------------------- */

static hx_error *number_escaped(struct profile *p, const char *s, uint32_t *ret)
{
    struct hx_text text = {0};
    hx_text_escape(&text, s, strlen(s), false);
    hx_error *err = text.failed ? hx_error_nomem() : number_text(p, hx_text_str(&text), ret);
    hx_text_free(&text);
    return err;
}

static const char *mapping_row_text(const hx_rows *rows, size_t column)
{
    struct hx_value value = hx_rows_value(rows, column);
    return value.type == HX_VALUE_TEXT ? value.text : "";
}

static hx_error *add_module(struct profile *p, const char *name, const char *path,
                            const char *build_id)
{
    struct module module = {0};
    HX_TRY(number_escaped(p, name, &module.name));
    HX_TRY(number_escaped(p, path, &module.path));
    HX_TRY(number_escaped(p, build_id, &module.build_id));
    for (size_t i = 0; i < p->modules.n; i++)
        if (p->modules.v[i].name == module.name) {
            if (!p->modules.v[i].build_id && p->modules.v[i].path == module.path)
                p->modules.v[i].build_id = module.build_id;
            return NULL;
        }
    return hx_vec_push(&p->modules, module) ? NULL : hx_error_nomem();
}

static hx_error *add_file(void *context, hx_rows *rows)
{
    struct profile *p = context;
    if (p->modules.n >= 10000)
        return NULL;
    return add_module(p, mapping_row_text(rows, 0), mapping_row_text(rows, 1),
                      mapping_row_text(rows, 2));
}

/* The program itself is the first; then all files that code was seen to run from. */
static hx_error *load_modules(struct profile *p)
{
    const char *exe = p->timepoints.exe[0]    ? p->timepoints.exe
                      : p->timepoints.comm[0] ? p->timepoints.comm
                                              : "(unknown)";
    const char *slash = strrchr(exe, '/');
    HX_TRY(add_module(p, slash ? slash + 1 : exe, exe, ""));
    return hx_query_each(p->export->store, HX_QUERY_files, HX_QUERY_ARGS(), add_file, p);
}

/* The id of a mapping; what belongs to no file belongs to the program. */
static hx_error *mapping_id(struct profile *p, const char *name, uint32_t *ret)
{
    *ret = 1;
    if (!*name || *name == '<')
        return NULL;
    struct module module = {0};
    HX_TRY(number_text(p, name, &module.name));
    module.path = module.name;
    for (size_t i = 0; i < p->modules.n; i++)
        if (p->modules.v[i].name == module.name) {
            *ret = (uint32_t)i + 1;
            return NULL;
        }
    if (p->modules.n >= 20000)
        return NULL;
    *ret = (uint32_t)p->modules.n + 1;
    return hx_vec_push(&p->modules, module) ? NULL : hx_error_nomem();
}

/* --- messages ---------------------------------------------------------------------------- */

static hx_error *put_type(struct profile *p, unsigned field, const char *type, const char *unit)
{
    uint32_t number;
    HX_TRY(number_text(p, type, &number));
    put_number(&p->part, TYPE_TYPE, number);
    HX_TRY(number_text(p, unit, &number));
    put_number(&p->part, TYPE_UNIT, number);
    put_message(&p->out, field, &p->part);
    return NULL;
}

static bool has_value(const struct hx_paths *paths, int value)
{
    return value == HX_PATH_BYTES || (value == HX_PATH_OBJECTS && paths->has_objects) ||
           (value < HX_PATH_OBJECTS && paths->has_alloc);
}

static hx_error *put_location(struct profile *p, const struct hx_path_frame *frame, uint32_t id)
{
    struct function function = {0};
    uint32_t module = 0, number = 0;
    HX_TRY(number_text(p, frame->name, &function.name));
    /* Readers take what stands in brackets out of a name that is the symbol itself. */
    bool bracket = !frame->symbol[0] && strpbrk(frame->name, "<(");
    HX_TRY(number_text(p, frame->symbol[0] || bracket ? frame->symbol : frame->name,
                       &function.symbol));
    HX_TRY(number_text(p, frame->file, &function.file));
    HX_TRY(number_function(p, &function, &number));
    HX_TRY(mapping_id(p, frame->module, &module));
    put_number(&p->inner, LINE_FUNCTION, number);
    put_number(&p->inner, LINE_LINE, frame->line);
    put_number(&p->part, LOCATION_ID, id);
    put_number(&p->part, LOCATION_MAPPING, module);
    put_message(&p->part, LOCATION_LINE, &p->inner);
    put_message(&p->tables, PROFILE_LOCATION, &p->part);
    return NULL;
}

/* Leaf first. Locations that are new come before what is made of them. */
static hx_error *put_pprof_sample(struct profile *p, uint32_t node)
{
    uint32_t frame[HX_PATHS_DEPTH + 1];
    uint32_t n = hx_paths_frames(p->paths, node, frame);
    for (uint32_t i = n; i--;) {
        if (p->location[frame[i]])
            continue;
        p->location[frame[i]] = ++p->locations;
        HX_TRY(put_location(p, &p->paths->frames.v[frame[i]], p->locations));
    }
    for (uint32_t i = n; i--;)
        put_varint(&p->inner, p->location[frame[i]]);
    put_message(&p->part, SAMPLE_LOCATIONS, &p->inner);
    for (int value = 0; value < HX_PATH_VALUES; value++)
        if (has_value(p->paths, value))
            put_varint(&p->inner, p->paths->nodes.v[node].own[value]);
    put_message(&p->part, SAMPLE_VALUES, &p->inner);
    put_message(&p->samples, PROFILE_SAMPLE, &p->part);
    return NULL;
}

static hx_error *put_samples(struct profile *p)
{
    HX_FREE uint64_t *weight = NULL;
    HX_FREE uint32_t *order = NULL;
    HX_TRY(hx_paths_inclusive(p->paths, HX_PATH_BYTES, &weight));
    HX_TRY(hx_paths_order(p->paths, weight, &order));
    for (size_t i = 1; i < p->paths->nodes.n; i++) {
        const uint64_t *own = p->paths->nodes.v[order[i]].own;
        if (own[0] || own[1] || own[2] || own[3])
            HX_TRY(put_pprof_sample(p, order[i]));
    }
    return NULL;
}

/* A reader with names for all of it asks no file for them. */
static void put_mappings(struct profile *p)
{
    for (size_t i = 0; i < p->modules.n; i++) {
        put_number(&p->part, MAPPING_ID, i + 1);
        put_number(&p->part, MAPPING_FILE, p->modules.v[i].path);
        put_number(&p->part, MAPPING_BUILD_ID, p->modules.v[i].build_id);
        for (unsigned flag = MAPPING_HAS_FUNCTIONS; flag <= MAPPING_HAS_INLINED; flag++)
            put_number(&p->part, flag, 1);
        put_message(&p->out, PROFILE_MAPPING, &p->part);
    }
}

static void put_functions(struct profile *p)
{
    for (size_t i = 0; i < p->functions.n; i++) {
        put_number(&p->part, FUNCTION_ID, i + 1);
        put_number(&p->part, FUNCTION_NAME, p->functions.v[i].name);
        put_number(&p->part, FUNCTION_SYMBOL, p->functions.v[i].symbol);
        put_number(&p->part, FUNCTION_FILE, p->functions.v[i].file);
        put_message(&p->out, PROFILE_FUNCTION, &p->part);
    }
}

static hx_error *put_facts(struct profile *p)
{
    const struct hx_timepoint *timepoint = &p->timepoints.v.v[p->timepoints.v.n - 1];
    struct hx_text comment = {0};
    uint32_t number = 0;
    put_number(&p->out, PROFILE_TIME, (uint64_t)timepoint->taken_at_ns);
    if (p->timepoints.has_start)
        put_number(&p->out, PROFILE_DURATION, timepoint->since_ns);
    HX_TRY(put_type(p, PROFILE_PERIOD_TYPE, "space", "bytes"));
    put_number(&p->out, PROFILE_PERIOD, p->paths->sample_bytes ? p->paths->sample_bytes : 1);
    hx_text_putf(&comment, "heapx: %s, snapshot %" PRId64 ", by %s", p->export->title,
                 timepoint->snapshot, p->paths->by);
    hx_error *err =
        comment.failed ? hx_error_nomem() : number_escaped(p, hx_text_str(&comment), &number);
    hx_text_free(&comment);
    HX_TRY(err);
    put_number(&p->out, PROFILE_COMMENT, number);
    HX_TRY(number_text(p, "inuse_space", &number));
    put_number(&p->out, PROFILE_DEFAULT_TYPE, number);
    return NULL;
}

/* Makes all of it in p->out. */
static hx_error *make_profile(struct profile *p)
{
    static const char *const types[HX_PATH_VALUES][2] = {{"alloc_objects", "count"},
                                                         {"alloc_space", "bytes"},
                                                         {"inuse_objects", "count"},
                                                         {"inuse_space", "bytes"}};
    uint32_t number;
    HX_TRY(number_text(p, "", &number));
    HX_TRY(hx_timepoints_load(p->export, &p->timepoints));
    HX_TRY(load_modules(p));
    for (int value = 0; value < HX_PATH_VALUES; value++)
        if (has_value(p->paths, value))
            HX_TRY(put_type(p, PROFILE_TYPE, types[value][0], types[value][1]));
    p->location = calloc(p->paths->frames.n + 1, sizeof *p->location);
    HX_NEED(p->location);
    HX_TRY(put_samples(p));
    hx_text_putn(&p->out, hx_text_str(&p->samples), p->samples.n);
    put_mappings(p);
    hx_text_putn(&p->out, hx_text_str(&p->tables), p->tables.n);
    put_functions(p);
    HX_TRY(put_facts(p)); /* its texts are the last ones */
    for (size_t i = 0; i < p->texts.n; i++)
        put_bytes(&p->out, PROFILE_STRING, p->texts.v[i], strlen(p->texts.v[i]));
    p->out.failed |= p->samples.failed || p->tables.failed || p->part.failed || p->inner.failed;
    return p->out.failed ? hx_error_nomem() : NULL;
}

/* --- the file ---------------------------------------------------------------------------- */

/* No time and no name in the header: the same store gives the same bytes. */
static hx_error *put_gzip(struct hx_sink *sink, const struct hx_text *bytes)
{
    z_stream z = {0};
    gz_header header = {.os = 255}; /* unknown */
    if (deflateInit2(&z, 9, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return hx_error_nomem();
    deflateSetHeader(&z, &header);
    uLong room = deflateBound(&z, bytes->n) + 64;
    HX_FREE Bytef *packed = malloc(room);
    z.next_in = (Bytef *)(uintptr_t)hx_text_str(bytes);
    z.avail_in = (uInt)bytes->n;
    z.next_out = packed;
    z.avail_out = (uInt)room;
    int code = packed ? deflate(&z, Z_FINISH) : Z_MEM_ERROR;
    if (code == Z_STREAM_END)
        hx_sink_put(sink, packed, z.total_out);
    deflateEnd(&z);
    return code == Z_STREAM_END ? NULL : hx_error_nomem();
}

static hx_error *try_size(const struct hx_export *export, struct hx_paths *paths,
                          struct hx_sink *sink, bool last, bool *ret_done)
{
    HX_CLEANUP(deinit_profile) struct profile p = {.export = export, .paths = paths};
    HX_TRY(make_profile(&p));
    *ret_done = last || p.out.n <= PROFILE_BYTES;
    return *ret_done ? put_gzip(sink, &p.out) : NULL;
}

static hx_error *write_pprof(const struct hx_export *export, struct hx_sink *sink)
{
    HX_PATHS struct hx_paths paths = {.detail = HX_PATHS_MODULES | HX_PATHS_LINES | HX_PATHS_COSTS};
    struct hx_paths_cut cut = {.samples = PROFILE_SAMPLES, .value = HX_PATH_BYTES};
    size_t merged = 0;
    HX_TRY(hx_paths_load(export, export->snapshot, &paths));
    for (bool done = false; !done;) {
        size_t more = 0;
        HX_TRY(hx_paths_cut(&paths, &cut, &more));
        merged += more;
        HX_TRY(try_size(export, &paths, sink, cut.samples == 1, &done));
        size_t left = hx_paths_samples(&paths);
        cut.samples = left > 2 ? left * 2 / 3 : 1;
    }
    hx_paths_note(export, &paths);
    if (merged)
        hx_text_putf(export->notes,
                     "%zu of the smallest stacks are merged into (other): readers take %d in 4 MiB"
                     "\n",
                     merged, PROFILE_SAMPLES);
    return NULL;
}

const struct hx_exporter hx_export_pprof = {
    .name = "pprof",
    .about = "gzipped profile.proto, for go tool pprof and its like",
    .by = HX_PATHS_BY,
    .censuses = HX_CENSUS_FLAT,
    .span = HX_EXPORT_ONE,
    .binary = true,
    .write = write_pprof,
};
