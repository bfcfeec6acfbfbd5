/* code_types.c - the types that debug information defines, with their sizes.
 *
 * Units are gone through entry by entry outside of functions; an entry is looked at once, and one
 * behind the deadline not at all.
 */
#include "sym/code/code_private.h"

#include "base/text.h"
#include "base/timing.h"

#include <dwarf.h>
#include <string.h>

#define DEPTH_MAX  16 /* of namespaces and classes within each other */
#define PEEL_MAX   16 /* names of names of a type */
#define CLOCK_GAP  256
#define NAME_BYTES 1000

struct types {
    struct hx_code_dwarf *dwarf;
    uint64_t deadline_ns, budget;
    bool (*each)(void *context, const char *name, uint64_t bytes);
    void *context;
    struct hx_text name;
    bool stopped;
};

static bool is_record(int tag)
{
    return tag == DW_TAG_structure_type || tag == DW_TAG_class_type || tag == DW_TAG_union_type;
}

static bool die_type_number(Dwarf_Die *die, unsigned name, uint64_t *ret)
{
    Dwarf_Attribute attr;
    Dwarf_Word value;
    if (!dwarf_attr(die, name, &attr) || dwarf_formudata(&attr, &value) != 0)
        return false;
    *ret = value;
    return true;
}

/* The type that an entry refers to, without names for it and qualifiers. */
static bool strip_qualifiers(Dwarf_Die *die, Dwarf_Die *ret)
{
    *ret = *die;
    for (int i = 0; i < PEEL_MAX; i++) {
        Dwarf_Attribute attr;
        if (!dwarf_attr(ret, DW_AT_type, &attr) || !dwarf_formref_die(&attr, ret))
            return false;
        int tag = dwarf_tag(ret);
        if (tag != DW_TAG_typedef && tag != DW_TAG_const_type && tag != DW_TAG_volatile_type)
            return true;
    }
    return false;
}

bool hx_code_dwarf_elements(struct hx_code_dwarf *dwarf, Dwarf_Die *array, uint64_t *ret)
{
    Dwarf_Die die;
    *ret = 1;
    if (dwarf_child(array, &die) != 0)
        return false;
    for (int i = 0; i < PEEL_MAX; i++) {
        uint64_t n;
        if (dwarf_tag(&die) == DW_TAG_subrange_type) {
            if (!die_type_number(&die, DW_AT_count, &n) &&
                (!die_type_number(&die, DW_AT_upper_bound, &n) || n == UINT64_MAX || !++n))
                return false;
            if (__builtin_mul_overflow(*ret, n, ret))
                return false;
        }
        if (!hx_code_dwarf_sibling(dwarf, &die, &die))
            return true;
    }
    return false;
}

/* The size of a record, or of an array that a typedef names; of other things none. */
static bool type_size(struct types *types, Dwarf_Die *die, int tag, uint64_t *ret)
{
    Dwarf_Die type, element;
    uint64_t n, size;
    if (is_record(tag))
        return die_type_number(die, DW_AT_byte_size, ret);
    if (!strip_qualifiers(die, &type))
        return false;
    if (is_record(dwarf_tag(&type)))
        return die_type_number(&type, DW_AT_byte_size, ret);
    if (dwarf_tag(&type) != DW_TAG_array_type)
        return false;
    if (die_type_number(&type, DW_AT_byte_size, ret))
        return true;
    if (!strip_qualifiers(&type, &element) || !hx_code_dwarf_elements(types->dwarf, &type, &n))
        return false;
    if (dwarf_tag(&element) == DW_TAG_pointer_type)
        size = 8;
    else if (!die_type_number(&element, DW_AT_byte_size, &size))
        return false;
    return !__builtin_mul_overflow(n, size, ret);
}

/* Appends an entry's name to that of what it is in. False: it has none, or too long a one. */
static bool put_die_name(struct types *types, Dwarf_Die *die)
{
    Dwarf_Attribute attr;
    const char *name = dwarf_attr(die, DW_AT_name, &attr) ? dwarf_formstring(&attr) : NULL;
    if (!name && dwarf_tag(die) == DW_TAG_namespace)
        name = "(anonymous namespace)";
    if (!name || types->name.n + strlen(name) > NAME_BYTES)
        return false;
    if (types->name.n)
        hx_text_puts(&types->name, "::");
    hx_text_puts(&types->name, name);
    return !types->name.failed;
}

static bool spend_type_die(struct types *types)
{
    if (!types->budget || (--types->budget % CLOCK_GAP == 0 && hx_now_ns() >= types->deadline_ns))
        types->stopped = true;
    return !types->stopped;
}

/* One entry; true: what is in it is to be looked at, and the name is now that of the entry. */
static bool visit_type_die(struct types *types, Dwarf_Die *die)
{
    int tag = dwarf_tag(die);
    uint64_t bytes;
    bool record = is_record(tag), space = tag == DW_TAG_namespace;
    if ((!record && !space && tag != DW_TAG_typedef) || !put_die_name(types, die))
        return false;
    if (!space && type_size(types, die, tag, &bytes) && bytes &&
        !types->each(types->context, hx_text_str(&types->name), bytes))
        types->stopped = true;
    return record || space;
}

static bool go_through(void *context, Dwarf_Die *unit)
{
    struct types *types = context;
    struct {
        Dwarf_Die die;
        size_t name; /* how long that of what the level is in is */
    } level[DEPTH_MAX];
    size_t depth = 0;
    types->stopped |= hx_now_ns() >= types->deadline_ns;
    if (dwarf_child(unit, &level[0].die) != 0)
        return !types->stopped;
    level[0].name = 0;
    while (spend_type_die(types)) {
        types->name.n = level[depth].name;
        bool enter = visit_type_die(types, &level[depth].die) && depth + 1 < DEPTH_MAX;
        if (enter && dwarf_child(&level[depth].die, &level[depth + 1].die) == 0) {
            level[++depth].name = types->name.n;
            continue;
        }
        for (;;) {
            Dwarf_Die next;
            if (hx_code_dwarf_sibling(types->dwarf, &level[depth].die, &next)) {
                level[depth].die = next;
                break;
            }
            if (!depth--)
                return true;
        }
    }
    return false;
}

bool hx_code_dwarf_types(struct hx_code_dwarf *dwarf, uint64_t deadline_ns,
                         bool (*each)(void *context, const char *name, uint64_t bytes),
                         void *context)
{
    struct types types = {
        .dwarf = dwarf, .deadline_ns = deadline_ns, .each = each, .context = context};
    types.budget = hx_code_dwarf_each_unit(dwarf, NULL, NULL);
    (void)hx_code_dwarf_each_unit(dwarf, go_through, &types);
    hx_text_free(&types.name);
    return !types.stopped;
}
