/* classes.c - types of Python objects. */
#include "attach/python/classes.h"

#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>

#define NO_TYPE       (HX_NO_PAIR - 1)
#define BASES_MAX     64
#define BASICSIZE_MAX (1 << 20)
#define ITEMSIZE_MAX  (1 << 16)
#define ATTRIBUTES    4096 /* of a class that are looked through for its module */

static const struct hx_py_layout layouts[] = {
    {.version = HX_PYTHON(3, 11),
     .qualname = 864,
     .cached_keys = 872,
     .ascii = 48,
     .compact = 72,
     .str_utf8 = 56,
     .str_data = 72},
    {.version = HX_PYTHON(3, 12),
     .qualname = 872,
     .cached_keys = 880,
     .ascii = 40,
     .compact = 56,
     .str_utf8 = 48,
     .str_data = 56,
     .tagged_values = true,
     .long_tag = true,
     .weak_before = true},
    {.version = HX_PYTHON(3, 13),
     .qualname = 872,
     .cached_keys = 880,
     .ascii = 40,
     .compact = 56,
     .str_utf8 = 48,
     .str_data = 56,
     .inline_values = true,
     .long_tag = true,
     .weak_before = true},
    {.version = HX_PYTHON(3, 14),
     .qualname = 872,
     .cached_keys = 880,
     .ascii = 40,
     .compact = 56,
     .str_utf8 = 48,
     .str_data = 56,
     .inline_values = true,
     .long_tag = true,
     .weak_before = true},
};

hx_error *hx_py_classes_init(struct hx_py_classes *classes, const struct hx_python *python,
                             hx_modules *modules, const struct hx_image *image,
                             const struct hx_peek *peek)
{
    uint64_t size;
    *classes = (struct hx_py_classes){.image = image, .peek = peek, .type_type = python->type_type};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (layouts[i].version == python->version)
            classes->layout = &layouts[i];
    if (!classes->layout || python->refusal)
        return hx_error_new(HX_E_ABSENT, "types of Python objects", NULL, "%s",
                            python->refusal ? python->refusal : "the version is not known");
    hx_module_symbol(modules, python->module, "_PyWeakref_RefType", &classes->weak_type, &size);
    pthread_mutex_init(&classes->lock, NULL);
    return NULL;
}

void hx_py_classes_deinit(struct hx_py_classes *classes)
{
    if (!classes->layout)
        return;
    pthread_mutex_destroy(&classes->lock);
    hx_vec_free(&classes->class);
    hx_pairs_free(&classes->by_addr);
}

/* --- keys ------------------------------------------------------------------------------ */

/* struct _dictkeysobject */
struct keys {
    int64_t refcount;
    uint8_t log2_size, log2_index_bytes, kind;
    uint8_t padding;
    uint32_t keys_version;
    int64_t usable, used;
};

bool hx_py_keys_at(const struct hx_py_classes *classes, uint64_t addr, struct hx_py_keys *ret)
{
    enum { GENERAL, UNICODE, SPLIT, KINDS };
    struct keys keys;
    if (!addr || addr % 8 || !hx_image_read(classes->image, addr, &keys, sizeof keys) ||
        keys.log2_size > 40 || keys.log2_index_bytes < keys.log2_size ||
        keys.log2_index_bytes > keys.log2_size + 3 || keys.kind >= KINDS || keys.used < 0 ||
        keys.usable < 0 || keys.usable >> 40 || keys.used >> 40)
        return false;
    *ret = (struct hx_py_keys){.addr = addr,
                               .entries = addr + HX_PY_KEYS_ENTRIES +
                                          (UINT64_C(1) << keys.log2_index_bytes),
                               .room = (UINT64_C(1) << keys.log2_size) * 2 / 3,
                               .used = (uint64_t)keys.used,
                               .shared = (uint64_t)(keys.used + keys.usable),
                               .stride = keys.kind == GENERAL ? 24 : 16,
                               .value = keys.kind == GENERAL ? 16 : 8};
    ret->bytes = ret->entries - addr + ret->room * ret->stride;
    return ret->used <= ret->room;
}

bool hx_py_put_key(const struct hx_py_classes *classes, const struct hx_py_keys *keys, uint64_t i,
                   struct hx_text *text)
{
    uint64_t key;
    return i < keys->used &&
           hx_image_u64(classes->image, keys->entries + i * keys->stride + keys->value - 8, &key) &&
           hx_py_put_str(classes, key, text);
}

bool hx_py_shared_keys(const struct hx_py_classes *classes, const struct hx_py_class *class,
                       struct hx_py_keys *ret)
{
    uint64_t keys;
    return class->flags & HX_PY_FLAG_HEAP &&
           hx_image_u64(classes->image, class->addr + classes->layout->cached_keys, &keys) &&
           hx_py_keys_at(classes, keys, ret) && ret->room <= HX_PY_ATTRIBUTES * 2;
}

/* --- types ----------------------------------------------------------------------------- */

/* Is it one by its own type? */
static bool has_type_of_type(const struct hx_py_classes *classes, uint64_t addr)
{
    uint64_t meta, of_meta, flags;
    if (!addr || addr % 8 || !hx_image_u64(classes->image, addr + HX_PY_TYPE, &meta))
        return false;
    return meta == classes->type_type ||
           (meta % 8 == 0 && hx_image_u64(classes->image, meta + HX_PY_TYPE, &of_meta) &&
            of_meta == classes->type_type &&
            hx_image_u64(classes->image, meta + HX_PY_TP_FLAGS, &flags) &&
            flags & HX_PY_FLAG_IS_TYPE);
}

static enum hx_py_kind kind_of_flags(uint64_t flags)
{
    static const enum hx_py_kind kinds[] = {HX_PY_INT,
                                            HX_PY_LIST,
                                            HX_PY_TUPLE,
                                            HX_PY_BYTES,
                                            HX_PY_STR,
                                            HX_PY_DICT,
                                            HX_PY_PLAIN /* exceptions */,
                                            HX_PY_CLASS};
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (flags >> (24 + i) & 1)
            return kinds[i];
    return HX_PY_PLAIN;
}

static enum hx_py_kind kind_of_name(const char *name)
{
    static const struct {
        const char *name;
        enum hx_py_kind kind;
    } kinds[] = {{"set", HX_PY_SET},
                 {"frozenset", HX_PY_SET},
                 {"bytearray", HX_PY_BYTEARRAY},
                 {"code", HX_PY_CODE},
                 {"module", HX_PY_MODULE}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return kinds[i].kind;
    return HX_PY_PLAIN;
}

/* What the interpreter knows of its objects: of one of its own types that the type is made of. */
static enum hx_py_kind kind_of(const struct hx_py_classes *classes, uint64_t addr, uint64_t flags)
{
    enum hx_py_kind kind = kind_of_flags(flags);
    for (unsigned i = 0; kind == HX_PY_PLAIN && addr && i < BASES_MAX; i++) {
        HX_CLEANUP(hx_text_free) struct hx_text text = {0};
        uint64_t name;
        if (addr == classes->weak_type)
            return HX_PY_WEAK;
        if (!hx_image_u64(classes->image, addr + HX_PY_TP_FLAGS, &flags))
            break;
        if (!(flags & HX_PY_FLAG_HEAP) &&
            hx_image_u64(classes->image, addr + HX_PY_TP_NAME, &name) &&
            hx_py_put_text(classes, name, &text) && !text.failed)
            kind = kind_of_name(hx_text_str(&text));
        if (!hx_image_u64(classes->image, addr + HX_PY_TP_BASE, &addr))
            break;
    }
    return kind;
}

static uint32_t prefix_of(const struct hx_py_classes *classes, uint64_t flags)
{
    const uint64_t words =
        classes->layout->weak_before ? HX_PY_FLAG_DICT | HX_PY_FLAG_WEAK : HX_PY_FLAG_DICT;
    return (flags & HX_PY_FLAG_GC ? 16 : 0) + (flags & words ? 16 : 0);
}

static void find_values(const struct hx_py_classes *classes, struct hx_py_class *class)
{
    struct hx_py_keys keys;
    if (classes->layout->inline_values || !(class->flags & HX_PY_FLAG_DICT) ||
        !hx_py_shared_keys(classes, class, &keys))
        return;
    class->values_first = (keys.shared + 2 + 7) & ~UINT64_C(7);
    class->values_bytes = class->values_first + keys.shared * 8;
}

/* All but its number. */
static bool read_class(const struct hx_py_classes *classes, uint64_t addr, struct hx_py_class *ret)
{
    uint64_t word[HX_PY_TP_FLAGS / 8 + 1];
    HX_CLEANUP(hx_text_free) struct hx_text name = {0};
    if (!has_type_of_type(classes, addr) || !hx_image_read(classes->image, addr, word, sizeof word))
        return false;
    ret->addr = addr;
    ret->flags = word[HX_PY_TP_FLAGS / 8];
    ret->basicsize = word[HX_PY_TP_BASICSIZE / 8];
    ret->itemsize = word[HX_PY_TP_ITEMSIZE / 8];
    if (!(ret->flags & HX_PY_FLAG_READY) || ret->basicsize < HX_PY_HEAD ||
        ret->basicsize > BASICSIZE_MAX || ret->itemsize > ITEMSIZE_MAX ||
        !hx_py_put_text(classes, word[HX_PY_TP_NAME / 8], &name))
        return false;
    ret->prefix = prefix_of(classes, ret->flags);
    ret->kind = kind_of(classes, addr, ret->flags);
    ret->exact = !(ret->flags & HX_PY_FLAG_HEAP);
    find_values(classes, ret);
    return true;
}

/* Under the lock. */
static hx_error *look_up(struct hx_py_classes *classes, struct hx_py_class *class)
{
    uint32_t *number;
    if (classes->by_addr.n >= HX_PY_CLASSES_MAX &&
        hx_pairs_find(&classes->by_addr, class->addr) == HX_NO_PAIR)
        return NULL;
    HX_TRY(hx_pairs_at(&classes->by_addr, class->addr, &number));
    if (*number == HX_NO_PAIR) {
        struct hx_py_class found = {.number = (uint32_t)classes->class.n};
        *number = NO_TYPE;
        if (!read_class(classes, class->addr, &found))
            return NULL;
        HX_NEED(hx_vec_push(&classes->class, found));
        *number = found.number;
    }
    if (*number != NO_TYPE)
        *class = classes->class.v[*number];
    return NULL;
}

struct hx_py_class hx_py_class_at(struct hx_py_classes *classes, uint64_t addr)
{
    struct hx_py_class class = {.addr = addr, .number = HX_PY_NO_CLASS};
    if (!has_type_of_type(classes, addr))
        return class;
    pthread_mutex_lock(&classes->lock);
    hx_error *err = look_up(classes, &class);
    classes->nomem |= err != NULL;
    hx_error_free(err);
    pthread_mutex_unlock(&classes->lock);
    return class;
}

/* --- names ----------------------------------------------------------------------------- */

/* Appends "module." for a type whose dict says so, but for what is built in. */
static bool put_module(const struct hx_py_classes *classes, uint64_t addr, struct hx_text *text)
{
    uint64_t dict, table;
    struct hx_py_keys keys;
    if (!hx_image_u64(classes->image, addr + HX_PY_TP_DICT, &dict) || !dict ||
        !hx_image_u64(classes->image, dict + HX_PY_DICT_KEYS, &table) ||
        !hx_py_keys_at(classes, table, &keys))
        return false;
    for (uint64_t i = 0; i < keys.used && i < ATTRIBUTES; i++) {
        HX_CLEANUP(hx_text_free) struct hx_text key = {0}, module = {0};
        uint64_t value;
        if (!hx_py_put_key(classes, &keys, i, &key) || strcmp(hx_text_str(&key), "__module__") != 0)
            continue;
        if (!hx_image_u64(classes->image, keys.entries + i * keys.stride + keys.value, &value) ||
            !hx_py_put_str(classes, value, &module))
            return false;
        if (strcmp(hx_text_str(&module), "builtins") != 0)
            hx_text_putf(text, "%s.", hx_text_str(&module));
        return true;
    }
    return false;
}

bool hx_py_put_class(struct hx_py_classes *classes, const struct hx_py_class *class,
                     struct hx_text *text)
{
    HX_CLEANUP(hx_text_free) struct hx_text name = {0}, full = {0};
    uint64_t at, qualname;
    if (!hx_image_u64(classes->image, class->addr + HX_PY_TP_NAME, &at) ||
        !hx_py_put_text(classes, at, &name))
        hx_text_puts(&name, "?");
    const bool made = class->flags & HX_PY_FLAG_HEAP && !strchr(hx_text_str(&name), '.');
    if (made)
        put_module(classes, class->addr, text);
    if (!made ||
        !hx_image_u64(classes->image, class->addr + classes->layout->qualname, &qualname) ||
        !hx_py_put_str(classes, qualname, &full))
        hx_text_puts(&full, hx_text_str(&name));
    hx_text_puts(text, hx_text_str(&full));
    return !text->failed && !name.failed && !full.failed;
}
