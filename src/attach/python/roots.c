/* roots.c - places of the Python interpreter that have names for who programs in it. */
#include "attach/python/roots.h"

#include "attach/python/frames.h"
#include "attach/ranges.h"
#include "base/timing.h"

#include <stdlib.h>
#include <string.h>

enum { WORD = 8, KEYS_MAX = 1024, RANGES = 16 };

struct finding {
    struct hx_snapshot *snapshot;
    const struct hx_image *image;
    hx_modules *modules;
    struct hx_python python;
    struct hx_py_classes classes;
    struct hx_py_state state;
    uint64_t dict_type;
    hx_root_list *roots;
};

static hx_error *add_place(struct finding *finding, uint64_t address, uint64_t size,
                           enum hx_root_words words, const char *name)
{
    struct hx_root root = {
        .kind = HX_ROOT_GLOBAL, .address = address, .size = size, .words = words};
    root.name = strdup(name);
    root.module = strdup(hx_module_name(finding->modules, finding->python.module));
    if (root.name && root.module && hx_vec_push(finding->roots, root))
        return NULL;
    hx_root_deinit(&root);
    return hx_error_nomem();
}

/* --- dicts ------------------------------------------------------------------------------ */

/* The keys of the dict that the word at an address leads to. */
static bool keys_of_dict(struct finding *finding, uint64_t address, struct hx_py_keys *ret)
{
    uint64_t dict, type, table;
    return hx_image_u64(finding->image, address, &dict) && dict && dict % WORD == 0 &&
           hx_image_u64(finding->image, dict + HX_PY_TYPE, &type) && type == finding->dict_type &&
           hx_image_u64(finding->image, dict + HX_PY_DICT_KEYS, &table) &&
           hx_py_keys_at(&finding->classes, table, ret);
}

static bool has_key(const struct finding *finding, const struct hx_py_keys *keys, const char *key)
{
    bool found = false;
    for (uint64_t i = 0; i < keys->used && i < KEYS_MAX && !found; i++) {
        struct hx_text text = {0};
        found = hx_py_put_key(&finding->classes, keys, i, &text) && !text.failed &&
                strcmp(hx_text_str(&text), key) == 0;
        hx_text_free(&text);
    }
    return found;
}

/* Only where it is there what it is called. */
static hx_error *add_dict(struct finding *finding, uint64_t address, const char *key,
                          const char *name)
{
    struct hx_py_keys keys;
    if (!keys_of_dict(finding, address, &keys) || !has_key(finding, &keys, key))
        return NULL;
    return add_place(finding, address, WORD, HX_WORDS_IN_USE, name);
}

/* --- interned strings ---------------------------------------------------------------------- */

/* Each key is its own value, and a str that says that it is in this table. */
static bool are_interned(const struct finding *finding, const struct hx_py_keys *keys)
{
    enum { LEAST = 64, LOOKED_AT = 256, INTERNED = 3 };
    uint64_t n = 0;
    for (uint64_t i = 0; i < keys->used && i < LOOKED_AT; i++) {
        uint64_t entry[3];
        uint32_t state;
        const uint64_t at = keys->entries + i * keys->stride + keys->value - WORD;
        if (!hx_image_read(finding->image, at, entry, 2 * sizeof *entry))
            return false;
        if (!entry[1])
            continue; /* it was taken out */
        if (entry[0] != entry[1] ||
            !hx_image_u32(finding->image, entry[0] + HX_PY_STR_STATE, &state) ||
            !(state & INTERNED))
            return false;
        n++;
    }
    return n >= LEAST;
}

/* The largest of those that words of the interpreter's data lead to. */
static hx_error *add_interned(struct finding *finding)
{
    uint64_t ranges[RANGES][2], found = 0, most = 0;
    const size_t n = hx_module_data(finding->modules, finding->python.module, ranges, RANGES);
    HX_PEEKED window = {0};
    for (size_t i = 0; i < n; i++)
        for (uint64_t at = (ranges[i][0] + WORD - 1) & ~(uint64_t)(WORD - 1);
             at + WORD <= ranges[i][1]; at += WORD) {
            const uint64_t *word = hx_image_peek(finding->image, at, 1, &window);
            struct hx_py_keys keys;
            if (word && *word && keys_of_dict(finding, at, &keys) && keys.used > most &&
                are_interned(finding, &keys)) {
                most = keys.used;
                found = at;
            }
        }
    return found ? add_place(finding, found, WORD, HX_WORDS_IN_USE, "interned strings") : NULL;
}

/* --- the garbage collector -------------------------------------------------------------------- */

/* Is this the head of a list that leads back to it? */
static bool is_list(const struct finding *finding, uint64_t at)
{
    const uint64_t flags = 7;
    uint64_t link[2], next, before;
    return hx_image_read(finding->image, at, link, sizeof link) && link[0] && link[1] &&
           hx_image_u64(finding->image, (link[0] & ~flags) + WORD, &before) &&
           hx_image_u64(finding->image, link[1] & ~flags, &next) && (before & ~flags) == at &&
           (next & ~flags) == at;
}

static hx_error *add_generations(struct finding *finding, uint64_t collector)
{
    static const char *const names[] = {"gc generation 0", "gc generation 1", "gc generation 2",
                                        "gc permanent generation"};
    enum { N = sizeof names / sizeof *names, BYTES = 512, HEAD = 2 * WORD };
    uint64_t head[N];
    size_t n = 0;
    for (uint64_t at = collector; at < collector + BYTES && n < N; at += WORD)
        if (is_list(finding, at)) {
            head[n++] = at;
            at += WORD;
        }
    for (size_t i = 0; n == N && i < n; i++)
        HX_TRY(add_place(finding, head[i], HEAD, HX_WORDS_WEAK, names[i]));
    return NULL;
}

/* --- text and code ---------------------------------------------------------------------------- */

/* A type of objects that the interpreter has built in. */
struct built_in {
    uint64_t type, data; /* where the text or the instructions begin in an object */
    uint64_t item;       /* bytes of each of its items; 0: it is a str, whose state says it */
};

/* Where the text of the object at `at` ends, as its words say; 0: it is none. */
static uint64_t end_of_text(const struct finding *finding, const struct built_in *of, uint64_t at,
                            uint64_t end)
{
    uint64_t n, item = of->item;
    uint32_t state;
    if (!hx_image_u64(finding->image, at + HX_PY_SIZE, &n) || n >= end - at)
        return 0;
    if (!item) {
        if (!hx_image_u32(finding->image, at + HX_PY_STR_STATE, &state) ||
            !(state & HX_PY_STR_COMPACT) || !(state & HX_PY_STR_ASCII))
            return 0;
        item = 1;
    }
    const uint64_t last = at + of->data + n * item;
    return last < end ? (last + WORD - 1) & ~(uint64_t)(WORD - 1) : 0;
}

/* In a program that lies low, four bytes of text and four of zeros look like an address. */
static hx_error *exclude_text(struct finding *finding, hx_ranges *excluded)
{
    enum { BYTES_DATA = 32, UNIT = 2 };
    struct built_in kinds[] = {{0, BYTES_DATA, 1},
                               {0, finding->classes.layout->ascii, 0},
                               {0, finding->state.layout.code_object.code, UNIT}};
    static const char *const symbols[] = {"PyBytes_Type", "PyUnicode_Type", "PyCode_Type"};
    uint64_t ranges[RANGES][2], size;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        hx_module_symbol(finding->modules, finding->python.module, symbols[k], &kinds[k].type,
                         &size);
    const size_t n = hx_module_data(finding->modules, finding->python.module, ranges, RANGES);
    HX_PEEKED window = {0};
    for (size_t i = 0; i < n; i++)
        for (uint64_t at = (ranges[i][0] + WORD - 1) & ~(uint64_t)(WORD - 1);
             ranges[i][1] >= HX_PY_HEAD && at <= ranges[i][1] - HX_PY_HEAD; at += WORD) {
            const uint64_t *word = hx_image_peek(finding->image, at, 2, &window);
            for (size_t k = 0; word && word[1] && k < sizeof kinds / sizeof *kinds; k++) {
                if (word[HX_PY_TYPE / WORD] != kinds[k].type || !word[HX_PY_REFCOUNT])
                    continue;
                const uint64_t end = end_of_text(finding, &kinds[k], at, ranges[i][1]);
                if (end > at + kinds[k].data)
                    HX_NEED(hx_ranges_add(excluded, at + kinds[k].data, end));
                break;
            }
        }
    return NULL;
}

/* --- what was freed ---------------------------------------------------------------------- */

/* Pointers, then nothing to the end: once used, a place is never empty again. At least as many as
 * are in use; SIZE_MAX: it is no such list. */
static size_t count_used(const struct finding *finding, uint64_t interpreter,
                         const struct hx_py_free_list *list)
{
    uint64_t item[HX_PY_FREE_MAX];
    uint32_t count;
    size_t n = 0;
    if (!list->items ||
        !hx_image_read(finding->image, interpreter + list->items, item, sizeof item) ||
        !hx_image_u32(finding->image, interpreter + list->count, &count))
        return SIZE_MAX;
    while (n < HX_PY_FREE_MAX && item[n] && item[n] % WORD == 0)
        n++;
    for (size_t i = n; i < HX_PY_FREE_MAX; i++)
        if (item[i])
            return SIZE_MAX;
    return count <= n ? count : SIZE_MAX;
}

static hx_error *exclude_taken(const struct finding *finding, uint64_t interpreter,
                               hx_ranges *excluded)
{
    for (size_t i = 0; i < HX_PY_FREE_LISTS; i++) {
        const struct hx_py_free_list *list = &finding->state.layout.free_list[i];
        const size_t used = count_used(finding, interpreter, list);
        const uint64_t items = interpreter + list->items;
        if (used < HX_PY_FREE_MAX)
            HX_NEED(hx_ranges_add(excluded, items + used * WORD, items + HX_PY_FREE_MAX * WORD));
    }
    return NULL;
}

/* --- all of them ---------------------------------------------------------------------------- */

static hx_error *find_all(struct finding *finding, hx_ranges *excluded)
{
    const struct hx_py_state_layout *layout = &finding->state.layout;
    uint64_t size;
    hx_module_symbol(finding->modules, finding->python.module, "PyDict_Type", &finding->dict_type,
                     &size);
    HX_TRY(hx_py_state_read(&finding->python, finding->image, &finding->state));
    for (size_t i = 0; i < finding->state.interpreters.n; i++) {
        const uint64_t at = finding->state.interpreters.v[i];
        HX_TRY(add_dict(finding, at + layout->modules, "sys", "sys.modules"));
        HX_TRY(add_dict(finding, at + layout->sys, "getsizeof", "sys.__dict__"));
        HX_TRY(add_dict(finding, at + layout->builtins, "len", "builtins.__dict__"));
        HX_TRY(add_generations(finding, at + layout->gc));
        HX_TRY(exclude_taken(finding, at, excluded));
    }
    HX_TRY(add_interned(finding));
    HX_TRY(exclude_text(finding, excluded));
    if (finding->state.lost)
        hx_snapshot_lose(finding->snapshot, "lists of Python's threads that end in what is none",
                         finding->state.lost, 0, 0);
    if (finding->state.own_heaps) {
        hx_snapshot_note(
            finding->snapshot, true,
            "%zu sub-interpreters of Python have an allocator of their own, which this "
            "version does not know: their small objects are none",
            finding->state.own_heaps);
        hx_snapshot_lose(finding->snapshot, "heaps of sub-interpreters", finding->state.own_heaps,
                         0, 0);
    }
    HX_TRY(hx_py_frames_find(finding->snapshot, &finding->classes, &finding->state, finding->roots,
                             excluded));
    return finding->classes.nomem ? hx_error_nomem() : NULL;
}

hx_error *hx_python_roots(struct hx_snapshot *snapshot, hx_modules *modules,
                          const struct hx_peek *peek, hx_root_list *roots, hx_ranges *excluded)
{
    struct finding finding = {
        .snapshot = snapshot, .image = &snapshot->image, .modules = modules, .roots = roots};
    if (!snapshot->backtraces || !hx_python_find(modules, peek, &finding.python) ||
        finding.python.refusal || !hx_py_state_layout(&finding.python, peek, &finding.state.layout))
        return NULL;
    const uint64_t begun = hx_timing_begin();
    HX_TRY(hx_py_classes_init(&finding.classes, &finding.python, modules, &snapshot->image, peek));
    hx_error *err = find_all(&finding, excluded);
    hx_timing_end(begun, "python-roots", roots->n);
    hx_py_state_deinit(&finding.state);
    hx_py_classes_deinit(&finding.classes);
    return err;
}
