/* fields.c - which attribute, item or key a word of a Python object is. */
#include "attach/python/fields.h"

#include "base/cleanup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD 8

static hx_error *add_field(struct hx_layout *layout, uint64_t offset, const char *name)
{
    if (layout->fields.n && layout->fields.v[layout->fields.n - 1].offset >= offset)
        return NULL; /* they come in order, but where a target lies */
    struct hx_field field = {.offset = offset, .name = strdup(name)};
    if (field.name && hx_vec_push(&layout->fields, field))
        return NULL;
    free(field.name);
    return hx_error_nomem();
}

static int by_offset(const void *a, const void *b)
{
    const struct hx_field *x = a, *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* What a type says of the words of its objects (struct PyMemberDef), those of __slots__ too. */
static hx_error *add_members(const struct hx_py_classes *classes, uint64_t at, size_t n,
                             uint64_t object, struct hx_layout *layout)
{
    enum { OBJECT = 6, OBJECT_OR_ERROR = 16 };
    uint64_t member[5];
    for (size_t i = 0;
         i < n && hx_image_read(classes->image, at, member, sizeof member) && member[0];
         i++, at += sizeof member) {
        HX_CLEANUP(hx_text_free) struct hx_text name = {0};
        const uint32_t kind = (uint32_t)member[1];
        if ((kind != OBJECT && kind != OBJECT_OR_ERROR) || member[2] % WORD || member[2] >> 16 ||
            !hx_py_put_text(classes, member[0], &name))
            continue;
        struct hx_field field = {.offset = object + member[2], .name = name.s};
        HX_NEED(!name.failed && hx_vec_push(&layout->fields, field));
        name.s = NULL;
    }
    return NULL;
}

static hx_error *add_shared(const struct hx_py_objects *objects, const struct hx_py_class *class,
                            uint64_t at, struct hx_layout *layout)
{
    struct hx_py_classes *classes = objects->classes;
    struct hx_py_keys keys;
    if (!hx_py_shared_keys(classes, class, &keys))
        return NULL;
    for (uint64_t i = 0; i < keys.used && i < HX_PY_ATTRIBUTES; i++) {
        HX_CLEANUP(hx_text_free) struct hx_text name = {0};
        if (hx_py_put_key(classes, &keys, i, &name))
            HX_TRY(add_field(layout, at + i * WORD, hx_text_str(&name)));
        HX_NEED(!name.failed);
    }
    return NULL;
}

struct named_word {
    enum hx_py_kind kind;
    uint64_t offset;
    const char *name;
};

/* Of the interpreter's own types, what they do not say. */
static const struct named_word named_words[] = {
    {HX_PY_DICT, HX_PY_DICT_KEYS, "keys"},
    {HX_PY_DICT, HX_PY_DICT_VALUES, "values"},
    {HX_PY_LIST, HX_PY_LIST_ITEMS, "items"},
    {HX_PY_SET, HX_PY_SET_TABLE, "table"},
    {HX_PY_BYTEARRAY, HX_PY_BYTEARRAY_BYTES, "bytes"},
    {HX_PY_MODULE, HX_PY_MODULE_DICT, "__dict__"},
    {HX_PY_CLASS, HX_PY_TP_BASE, "__base__"},
    {HX_PY_CLASS, HX_PY_TP_DICT, "__dict__"},
};

static hx_error *push_field(struct hx_layout *layout, uint64_t offset, const char *name)
{
    struct hx_field field = {.offset = offset, .name = strdup(name)};
    if (field.name && hx_vec_push(&layout->fields, field))
        return NULL;
    free(field.name);
    return hx_error_nomem();
}

static hx_error *add_items(const struct hx_py_class *class, uint64_t object,
                           struct hx_layout *layout)
{
    enum { ITEMS = 32 };
    for (unsigned i = 0; class->kind == HX_PY_TUPLE && i < ITEMS; i++) {
        char name[16];
        snprintf(name, sizeof name, "[%u]", i);
        HX_TRY(push_field(layout, object + class->basicsize + i * WORD, name));
    }
    return NULL;
}

static hx_error *class_fields(const struct hx_py_objects *objects, const struct hx_py_class *class,
                              struct hx_layout *layout)
{
    const struct hx_py_classes *classes = objects->classes;
    const uint64_t object = objects->before + class->prefix;
    uint64_t at, n, meta, offset, basicsize;
    if (hx_image_u64(classes->image, class->addr + HX_PY_TP_MEMBERS, &at) && at &&
        !(class->flags & HX_PY_FLAG_HEAP))
        HX_TRY(add_members(classes, at, 64, object, layout));
    if (class->flags & HX_PY_FLAG_HEAP &&
        hx_image_u64(classes->image, class->addr + HX_PY_SIZE, &n) &&
        hx_image_u64(classes->image, class->addr + HX_PY_TYPE, &meta) &&
        hx_image_u64(classes->image, meta + HX_PY_TP_BASICSIZE, &basicsize) && n < 1024)
        HX_TRY(add_members(classes, class->addr + basicsize, n, object, layout));
    for (size_t i = 0; i < sizeof named_words / sizeof *named_words; i++)
        if (named_words[i].kind == class->kind)
            HX_TRY(push_field(layout, object + named_words[i].offset, named_words[i].name));
    if (hx_image_u64(classes->image, class->addr + HX_PY_TP_DICTOFFSET, &offset) && offset &&
        offset < class->basicsize && offset % WORD == 0)
        HX_TRY(push_field(layout, object + offset, "__dict__"));
    if (class->flags & HX_PY_FLAG_DICT)
        HX_TRY(push_field(layout, object - HX_PY_BEFORE_DICT, "__dict__"));
    if (class->flags & HX_PY_FLAG_DICT && !classes->layout->weak_before)
        HX_TRY(push_field(layout, object - HX_PY_BEFORE_OTHER, "values"));
    return add_items(class, object, layout);
}

/* In order, each once. */
static void settle_fields(struct hx_layout *layout)
{
    size_t n = 0;
    struct hx_field *field = layout->fields.v;
    if (layout->fields.n)
        qsort(field, layout->fields.n, sizeof *field, by_offset);
    for (size_t i = 0; i < layout->fields.n; i++)
        if (n && field[n - 1].offset == field[i].offset)
            free(field[i].name);
        else
            field[n++] = field[i];
    layout->fields.n = n;
}

/* The layout, unless it has no fields: in snapshot.layouts + 1. */
static hx_error *keep_layout(const struct hx_py_objects *objects, struct hx_layout *layout,
                             hx_error *err, uint32_t *ret)
{
    settle_fields(layout);
    if (!err && layout->fields.n && !hx_vec_push(&objects->snapshot->layouts, *layout))
        err = hx_error_nomem();
    if (err || !layout->fields.n) {
        hx_layout_deinit(layout);
        return err;
    }
    *ret = (uint32_t)objects->snapshot->layouts.n;
    return NULL;
}

hx_error *hx_py_layout_of_class(const struct hx_py_objects *objects,
                                const struct hx_py_class *class, uint32_t *ret)
{
    struct hx_layout layout = {.size = class->prefix + class->basicsize};
    hx_error *err = class_fields(objects, class, &layout);
    settle_fields(&layout);
    if (!err && class->flags & HX_PY_FLAG_INLINE && objects->classes->layout->inline_values)
        err = add_shared(objects, class, objects->before + class->prefix + class->basicsize + WORD,
                         &layout);
    return keep_layout(objects, &layout, err, ret);
}

hx_error *hx_py_layout_of_values(const struct hx_py_objects *objects,
                                 const struct hx_py_class *class, uint64_t at, uint32_t *ret)
{
    struct hx_layout layout = {.size = at};
    return keep_layout(objects, &layout, add_shared(objects, class, at, &layout), ret);
}

hx_error *hx_py_layout_of_words(const struct hx_py_objects *objects, const char *name, bool alike,
                                uint32_t *ret)
{
    struct hx_layout layout = {.size = WORD, .repeats = true, .alike = alike};
    return keep_layout(objects, &layout, add_field(&layout, 0, name), ret);
}
