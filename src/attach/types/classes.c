/* classes.c - from the address of a vtable to the name of its class. */
#include "attach/types/classes.h"

#include "base/lower_bound.h"
#include "sym/demangle.h"

#include <stdlib.h>
#include <string.h>

#define WORD       8
#define TOP_MAX    (1 << 24)            /* bytes of a class up to the last of its vtable pointers */
#define INFO_SLOTS (HX_CLASSES_MAX * 4) /* of the table of typeinfos; a power of 2 */

/* A typeinfo that was looked at. */
struct hx_typeinfo {
    uint64_t addr;  /* 0: free slot */
    uint32_t class; /* HX_NO_CLASS: it is none */
};

/* --- reading --------------------------------------------------------------------------- */

/* What was relocated was written and is in the image; the rest is as in the file. */
static bool peek_class_memory(const struct hx_classes *classes, uint64_t addr, void *dst,
                              size_t len)
{
    const struct hx_rtti_source *source = classes->source;
    return hx_image_read(classes->image, addr, dst, len) ||
           (source->read && source->read(source->context, addr, dst, len));
}

static bool peek_word(const struct hx_classes *classes, uint64_t addr, uint64_t *ret)
{
    return addr % WORD == 0 && peek_class_memory(classes, addr, ret, sizeof *ret);
}

/* A string of at most HX_MANGLED_MAX bytes, terminated. */
static bool peek_name(const struct hx_classes *classes, uint64_t addr,
                      char name[HX_MANGLED_MAX + 1])
{
    enum { STEP = 64 };
    for (size_t n = 0; n <= HX_MANGLED_MAX;) {
        size_t len = STEP - (addr + n) % STEP;
        if (len > HX_MANGLED_MAX + 1 - n)
            len = HX_MANGLED_MAX + 1 - n;
        if (n > UINT64_MAX - addr)
            return false;
        if (!peek_class_memory(classes, addr + n, name + n, len)) {
            len = 1; /* the end of a segment is near */
            if (!peek_class_memory(classes, addr + n, name + n, len))
                return false;
        }
        if (memchr(name + n, 0, len))
            return true;
        n += len;
    }
    return false;
}

/* --- proving --------------------------------------------------------------------------- */

/* The range that contains addr; NULL when none does. */
static const struct hx_range *module_range_at(const struct hx_rtti_source *source, uint64_t addr)
{
    size_t low = HX_LOWER_BOUND(source->n_ranges, i, source->range[i].end <= addr);
    return low < source->n_ranges && source->range[low].start <= addr ? &source->range[low] : NULL;
}

/* Names are letters, digits and a little else; a '*' in front says that they are not unique. */
static const char *plain_name(const char *name)
{
    if (*name == '*')
        name++;
    for (const char *at = name; *at; at++)
        if ((unsigned char)*at <= ' ' || *at == 0x7f)
            return NULL;
    return *name ? name : NULL;
}

/* Is it the typeinfo of a class, by the name of its own class? */
static bool is_class_info(const struct hx_classes *classes, uint64_t info)
{
    static const char *const kinds[] = {"N10__cxxabiv117__class_type_infoE",
                                        "N10__cxxabiv120__si_class_type_infoE",
                                        "N10__cxxabiv121__vmi_class_type_infoE"};
    char buf[HX_MANGLED_MAX + 1];
    uint64_t vtable, kind, name;
    if (!peek_word(classes, info, &vtable) || vtable < WORD ||
        !peek_word(classes, vtable - WORD, &kind) || kind > UINT64_MAX - WORD ||
        !peek_word(classes, kind + WORD, &name) || !peek_name(classes, name, buf))
        return false;
    const char *plain = plain_name(buf);
    for (size_t i = 0; plain && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(plain, kinds[i]) == 0)
            return true;
    return false;
}

/* The class of a typeinfo that nobody looked at yet; under the lock. */
static uint32_t new_class(struct hx_classes *classes, uint64_t info)
{
    char buf[HX_MANGLED_MAX + 1];
    uint64_t name;
    const char *plain;
    if (!is_class_info(classes, info) || info > UINT64_MAX - WORD ||
        !peek_word(classes, info + WORD, &name) || !peek_name(classes, name, buf) ||
        !(plain = plain_name(buf)))
        return HX_NO_CLASS;
    if (classes->names.n == HX_CLASSES_MAX)
        return HX_CLASSES_MAX;
    struct hx_text text = {0}, symbol = {0};
    hx_demangle_type(&text, plain);
    hx_text_putf(&symbol, "_ZTI%s", plain);
    if (text.failed || symbol.failed ||
        !hx_vec_push(&classes->names, ((struct hx_class){text.s, symbol.s}))) {
        hx_text_free(&text);
        hx_text_free(&symbol);
        atomic_store(&classes->nomem, true);
        return HX_NO_CLASS;
    }
    return (uint32_t)(classes->names.n - 1);
}

static uint32_t class_of_info(struct hx_classes *classes, uint64_t info)
{
    pthread_mutex_lock(&classes->lock);
    size_t slot = hx_classes_hash(info, INFO_SLOTS);
    while (classes->info[slot].addr && classes->info[slot].addr != info)
        slot = (slot + 1) & (INFO_SLOTS - 1);
    uint32_t class = classes->info[slot].class;
    if (!classes->info[slot].addr) {
        class = new_class(classes, info);
        if (classes->n_infos < INFO_SLOTS / 2) {
            classes->info[slot] = (struct hx_typeinfo){info, class};
            classes->n_infos++;
        }
    }
    pthread_mutex_unlock(&classes->lock);
    return class;
}

struct hx_vtable hx_classes_vtable(struct hx_classes *classes, uint64_t addr)
{
    struct hx_vtable vtable = {.addr = addr, .class = HX_NO_CLASS};
    uint64_t words[2]; /* offset to the top, typeinfo */
    const struct hx_range *range = module_range_at(classes->source, addr);
    if (!range || addr - range->start < sizeof words ||
        !peek_class_memory(classes, addr - sizeof words, words, sizeof words))
        return vtable;
    int64_t top = (int64_t)words[0];
    if (top > 0 || top < -TOP_MAX || top % WORD || !words[1] || words[1] % WORD ||
        !module_range_at(classes->source, words[1]))
        return vtable;
    vtable.top = (int32_t)top;
    vtable.class = class_of_info(classes, words[1]);
    return vtable;
}

hx_error *hx_classes_init(struct hx_classes *classes, const struct hx_image *image,
                          const struct hx_rtti_source *source)
{
    *classes = (struct hx_classes){.image = image, .source = source};
    classes->info = calloc(INFO_SLOTS, sizeof *classes->info);
    HX_NEED(classes->info);
    pthread_mutex_init(&classes->lock, NULL);
    return NULL;
}

void hx_classes_deinit(struct hx_classes *classes)
{
    if (!classes->info)
        return;
    for (size_t i = 0; i < classes->names.n; i++) {
        free(classes->names.v[i].name);
        free(classes->names.v[i].symbol);
    }
    hx_vec_free(&classes->names);
    free(classes->info);
    pthread_mutex_destroy(&classes->lock);
    *classes = (struct hx_classes){0};
}
