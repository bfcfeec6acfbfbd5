/* types_read.c - entries of debug information, one after the other, into types that are kept once.
 */
#include "sym/types/types_read.h"

#include "base/cleanup.h"
#include "base/pairs.h"
#include "base/text.h"
#include "base/timing.h"
#include "model/type_build.h"
#include "sym/code/code_private.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX   64 /* of entries within entries */
#define CHAIN_MAX   64 /* of names for names of a type */
#define DIMENSIONS  8
#define CLOCK_GAP   1024
#define NAME_BYTES  8192 /* containers say three or four times what they hold */
#define LEAST_BYTES (64 * HX_MIB)
#define ALIAS       UINT32_C(0x80000000)
#define STAND_IN    UINT32_C(0x40000000) /* an alias, too: of what is defined elsewhere */

/* What an entry says, as far as types need it. */
struct entry {
    Dwarf_Die *die;
    int tag;
    const char *name, *linkage;
    uint64_t type, origin, size, offset, bound, encoding; /* type, origin: addresses of entries */
    bool has_type, has_size, has_offset, has_bound, has_bits, declared, artificial, is_virtual;
    bool is_static;
    Dwarf_Die type_die, origin_die;
    Dwarf_Attribute location;
    bool has_location, has_import, stands_in;
};

/* A field, or the target of a pointer, whose type is an entry. */
struct reference {
    uint64_t to;                /* address of the entry; 0: void */
    uint32_t owner;             /* type */
    struct hx_type_field field; /* of a record */
    bool is_field;
};
/* What is not said where a variable's place is stands at its origin: that of a static member, or in
 * another unit, as link-time optimization leaves it. */
struct variable_read {
    struct hx_type_variable variable;
    uint64_t type, origin;
};
/* A static member or variable that is defined elsewhere, or another name of a type. */
struct declaration {
    uint32_t name;
    uint64_t type, origin;
};

struct types_reader {
    struct hx_code_dwarf *dwarf;
    struct hx_type_build build;
    uint64_t deadline_ns, steps;
    bool stopped;
    bool shared; /* units refer to one another */
    hx_error *err;
    struct hx_pairs entries;      /* address of an entry to a type, or an alias */
    struct hx_pairs declarations; /* to one of: */
    struct hx_pairs walked;       /* addresses of units */
    HX_VEC(uint64_t) aliases;     /* what they are names of */
    HX_VEC(struct declaration) declared;
    HX_VEC(uint64_t) hashes; /* of the types that are kept */
    struct hx_index by_hash;
    /* of the units at hand */
    HX_VEC(struct reference) references;
    HX_VEC(struct variable_read) variables;
    HX_VEC(struct declaration) namings; /* typedefs */
    HX_VEC(Dwarf_Die) units;            /* that are needed, too */
    HX_VEC(uint64_t) known;             /* their entries */
    struct hx_text name;
    uint32_t first_field; /* of theirs */
};

static uint64_t address_of(const Dwarf_Die *die)
{
    return (uint64_t)(uintptr_t)die->addr;
}

/* --- one entry ------------------------------------------------------------------- */

static uint64_t attribute_number(Dwarf_Attribute *attr, bool *ret_there)
{
    Dwarf_Word value;
    *ret_there = dwarf_formudata(attr, &value) == 0;
    return *ret_there ? value : 0;
}

/* Where a member lies: a number, or the expression that DWARF 2 had for it. */
static void take_offset(struct entry *entry, Dwarf_Attribute *attr)
{
    Dwarf_Op *op;
    size_t n;
    entry->offset = attribute_number(attr, &entry->has_offset);
    if (entry->has_offset || dwarf_getlocation(attr, &op, &n) != 0)
        return;
    if (n == 1 && op[0].atom == DW_OP_plus_uconst) {
        entry->offset = op[0].number;
        entry->has_offset = true;
    } else {
        entry->is_virtual = true;
    }
}

static int take_attribute(Dwarf_Attribute *attr, void *context)
{
    struct entry *entry = context;
    bool there, flag;
    switch (dwarf_whatattr(attr)) {
    case DW_AT_name:
        entry->name = dwarf_formstring(attr);
        break;
    case DW_AT_linkage_name:
    case DW_AT_MIPS_linkage_name:
        entry->linkage = dwarf_formstring(attr);
        break;
    case DW_AT_type:
        entry->has_type = dwarf_formref_die(attr, &entry->type_die) != NULL;
        entry->type = entry->has_type ? address_of(&entry->type_die) : 0;
        break;
    case DW_AT_specification:
    case DW_AT_abstract_origin:
        if (dwarf_formref_die(attr, &entry->origin_die))
            entry->origin = address_of(&entry->origin_die);
        break;
    case DW_AT_signature: /* it stands for an entry of a type unit */
        if (dwarf_formref_die(attr, &entry->origin_die)) {
            entry->origin = address_of(&entry->origin_die);
            entry->stands_in = true;
        }
        break;
    case DW_AT_import:
        entry->has_import = dwarf_formref_die(attr, &entry->origin_die) != NULL;
        break;
    case DW_AT_byte_size:
        entry->size = attribute_number(attr, &entry->has_size);
        break;
    case DW_AT_data_member_location:
        take_offset(entry, attr);
        break;
    case DW_AT_data_bit_offset:
        entry->offset = attribute_number(attr, &entry->has_offset) / 8;
        break;
    case DW_AT_bit_size:
        entry->has_bits = true;
        break;
    case DW_AT_count:
        entry->bound = attribute_number(attr, &entry->has_bound);
        break;
    case DW_AT_upper_bound:
        entry->bound = attribute_number(attr, &there) + 1;
        entry->has_bound = there;
        break;
    case DW_AT_encoding:
        entry->encoding = attribute_number(attr, &there);
        break;
    case DW_AT_declaration:
        entry->declared = dwarf_formflag(attr, &flag) == 0 && flag;
        break;
    case DW_AT_external:
        entry->is_static = dwarf_formflag(attr, &flag) == 0 && flag;
        break;
    case DW_AT_artificial:
        entry->artificial = dwarf_formflag(attr, &flag) == 0 && flag;
        break;
    case DW_AT_virtuality:
        entry->is_virtual = attribute_number(attr, &there) != 0;
        break;
    case DW_AT_location:
        entry->location = *attr;
        entry->has_location = true;
        break;
    }
    return DWARF_CB_OK;
}

static struct entry read_entry(Dwarf_Die *die)
{
    struct entry entry = {.die = die, .tag = dwarf_tag(die)};
    (void)dwarf_getattrs(die, take_attribute, &entry, 0);
    return entry;
}

/* --- types ----------------------------------------------------------------------- */

static bool stop_reading(struct types_reader *reader, hx_error *err)
{
    if (err && !reader->err)
        reader->err = err;
    else
        hx_error_free(err);
    reader->stopped = true;
    return false;
}

static bool keep_room(struct types_reader *reader, bool room)
{
    return room || stop_reading(reader, hx_error_nomem());
}

/* The full name of an entry in the scope that reader->name tells. */
static bool put_string(struct types_reader *reader, const char *name, bool scoped, uint32_t *ret)
{
    struct hx_text *text = &reader->name;
    const size_t n = text->n;
    *ret = 0;
    if (!name || !*name)
        return true;
    if (scoped && n)
        hx_text_puts(text, "::");
    hx_text_puts(text, name);
    const size_t from = scoped ? 0 : n;
    hx_error *err =
        text->failed
            ? hx_error_nomem()
            : hx_type_build_string(&reader->build, text->s + from,
                                   text->n - from < NAME_BYTES ? text->n - from : NAME_BYTES, ret);
    text->n = n;
    if (text->s)
        text->s[n] = 0;
    return err ? stop_reading(reader, err) : true;
}

static bool know_entry(struct types_reader *reader, const struct entry *entry, uint32_t number)
{
    uint32_t *known;
    hx_error *err = hx_pairs_at(&reader->entries, address_of(entry->die), &known);
    if (err)
        return stop_reading(reader, err);
    *known = number;
    return keep_room(reader, hx_vec_push(&reader->known, address_of(entry->die)));
}

static bool add_reference(struct types_reader *reader, uint32_t owner, const Dwarf_Die *to,
                          bool there)
{
    const struct reference reference = {.to = there ? address_of(to) : 0, .owner = owner};
    return keep_room(reader, hx_vec_push(&reader->references, reference));
}

/* A unit that is referred to is read along with this one. */
static void need_unit(struct types_reader *reader, const struct entry *entry, Dwarf_Die *die)
{
    Dwarf_Die unit;
    if (die->cu == entry->die->cu || !dwarf_diecu(die, &unit, NULL, NULL))
        return;
    reader->shared = true;
    if (hx_pairs_find(&reader->walked, address_of(&unit)) == HX_NO_PAIR)
        (void)keep_room(reader, hx_vec_push(&reader->units, unit));
}

static bool add_type(struct types_reader *reader, const struct entry *entry,
                     struct hx_type_entry type, uint32_t *ret)
{
    if (hx_type_build_is_full(&reader->build)) {
        reader->build.left_out++;
        *ret = 0;
        return know_entry(reader, entry, 0);
    }
    *ret = (uint32_t)reader->build.types.n;
    return keep_room(reader, hx_vec_push(&reader->build.types, type)) &&
           know_entry(reader, entry, *ret);
}

static bool add_alias(struct types_reader *reader, const struct entry *entry, const Dwarf_Die *to,
                      bool there)
{
    const uint32_t kind = entry->stands_in ? ALIAS | STAND_IN : ALIAS;
    if (!there)
        return know_entry(reader, entry, 0);
    return keep_room(reader, hx_vec_push(&reader->aliases, address_of(to))) &&
           know_entry(reader, entry, kind | (uint32_t)(reader->aliases.n - 1));
}

/* An entry that stands for one of a type unit has its name, too. */
static bool add_stand_in(struct types_reader *reader, struct entry *entry)
{
    if (!entry->name)
        entry->name = dwarf_diename(&entry->origin_die);
    need_unit(reader, entry, &entry->origin_die);
    return add_alias(reader, entry, &entry->origin_die, true);
}

/* What a type is called whose declaration was met before, in another scope. */
static uint32_t name_declared(struct types_reader *reader, const struct entry *entry)
{
    const uint32_t declared =
        entry->origin ? hx_pairs_find(&reader->entries, entry->origin) : HX_NO_PAIR;
    return declared < reader->build.types.n ? reader->build.types.v[declared].name : 0;
}

static bool add_record(struct types_reader *reader, struct entry *entry, uint32_t *ret)
{
    struct hx_type_entry type = {.kind = entry->tag == DW_TAG_union_type ? HX_TYPE_UNION
                                                                         : HX_TYPE_RECORD,
                                 .size = entry->size};
    *ret = 0;
    if (entry->stands_in)
        return add_stand_in(reader, entry);
    if (entry->declared) {
        type.kind = HX_TYPE_OPAQUE;
        type.flags = HX_TYPE_DECLARED;
        type.size = 0;
    }
    type.name = name_declared(reader, entry);
    return (type.name || put_string(reader, entry->name, true, &type.name)) &&
           add_type(reader, entry, type, ret);
}

static bool add_enum(struct types_reader *reader, struct entry *entry)
{
    uint32_t number;
    struct hx_type_entry type = {.kind = HX_TYPE_ENUM, .size = entry->size};
    if (entry->stands_in)
        return add_stand_in(reader, entry);
    type.name = name_declared(reader, entry);
    return (type.name || put_string(reader, entry->name, true, &type.name)) &&
           add_type(reader, entry, type, &number);
}

static bool add_base(struct types_reader *reader, const struct entry *entry)
{
    uint32_t number;
    struct hx_type_entry type = {.kind = HX_TYPE_INT, .size = entry->size};
    if (entry->encoding == DW_ATE_float || entry->encoding == DW_ATE_complex_float ||
        entry->encoding == DW_ATE_imaginary_float || entry->encoding == DW_ATE_decimal_float)
        type.kind = HX_TYPE_FLOAT;
    if (entry->size == 1 &&
        (entry->encoding == DW_ATE_signed_char || entry->encoding == DW_ATE_unsigned_char ||
         entry->encoding == DW_ATE_UTF))
        type.flags = HX_TYPE_CHAR;
    return put_string(reader, entry->name, false, &type.name) &&
           add_type(reader, entry, type, &number);
}

static bool add_array(struct types_reader *reader, struct entry *entry)
{
    uint64_t count[DIMENSIONS];
    size_t n = 0;
    Dwarf_Die child;
    for (bool more = dwarf_child(entry->die, &child) == 0; more && n < DIMENSIONS;
         more = hx_code_dwarf_sibling(reader->dwarf, &child, &child)) {
        if (dwarf_tag(&child) != DW_TAG_subrange_type)
            continue;
        const struct entry range = read_entry(&child);
        count[n++] = range.has_bound ? range.bound : 0;
    }
    if (!n)
        count[n++] = 0;
    uint32_t number = 0, inner = 0;
    for (size_t i = n; i-- > 0;) {
        const struct hx_type_entry type = {
            .kind = HX_TYPE_ARRAY, .count = count[i], .target = inner};
        if (!add_type(reader, entry, type, &number))
            return false;
        if (!number)
            return true;
        if (i == n - 1 && !add_reference(reader, number, &entry->type_die, entry->has_type))
            return false;
        inner = number;
    }
    return true; /* the outermost one is the entry's */
}

static bool add_pointer(struct types_reader *reader, struct entry *entry)
{
    uint32_t number;
    const struct hx_type_entry type = {.kind = HX_TYPE_POINTER, .size = 8};
    return add_type(reader, entry, type, &number) &&
           (!number || add_reference(reader, number, &entry->type_die, entry->has_type));
}

/* What is named by a typedef alone is called so; it can come later. */
static bool add_typedef(struct types_reader *reader, struct entry *entry)
{
    struct declaration naming = {.type = entry->type};
    if (entry->has_type && !put_string(reader, entry->name, true, &naming.name))
        return false;
    if (naming.name && !keep_room(reader, hx_vec_push(&reader->namings, naming)))
        return false;
    return add_alias(reader, entry, &entry->type_die, entry->has_type);
}

static bool add_declaration(struct types_reader *reader, const struct entry *entry)
{
    uint32_t *known;
    struct declaration declaration = {.type = entry->type, .origin = entry->origin};
    if ((!entry->name && !entry->origin) ||
        !put_string(reader, entry->name, true, &declaration.name))
        return !reader->stopped;
    hx_error *err = hx_pairs_at(&reader->declarations, address_of(entry->die), &known);
    if (err)
        return stop_reading(reader, err);
    *known = (uint32_t)reader->declared.n;
    return keep_room(reader, hx_vec_push(&reader->declared, declaration));
}

static bool add_field(struct types_reader *reader, const struct entry *entry, uint32_t record)
{
    struct reference reference = {
        .to = entry->type, .owner = record, .is_field = true, .field.offset = entry->offset};
    const bool base = entry->tag == DW_TAG_inheritance;
    if (base)
        reference.field.flags |= HX_FIELD_BASE;
    if (base && entry->is_virtual) {
        reference.field.flags |= HX_FIELD_VIRTUAL;
        reference.field.offset = 0;
        reference.to = 0;
    }
    if (entry->has_bits)
        reference.field.flags |= HX_FIELD_BITS;
    if (entry->artificial && entry->name && strncmp(entry->name, "_vptr", 5) == 0) {
        reference.field.flags |= HX_FIELD_VPTR;
        reader->build.types.v[record].flags |= HX_TYPE_POLYMORPHIC;
    }
    return put_string(reader, entry->name, false, &reference.field.name) &&
           keep_room(reader, hx_vec_push(&reader->references, reference));
}

/* --- variables ------------------------------------------------------------------- */

static bool address_of_op(Dwarf_Attribute *location, const Dwarf_Op *op, uint64_t *ret)
{
    Dwarf_Attribute attr;
    Dwarf_Addr address;
    bool there;
    switch (op->atom) {
    case DW_OP_addr:
    case DW_OP_const8u:
    case DW_OP_const4u:
        *ret = op->number;
        return true;
    case DW_OP_constx:
    case DW_OP_GNU_const_index:
        if (dwarf_getlocation_attr(location, op, &attr) != 0)
            return false;
        *ret = attribute_number(&attr, &there);
        return there;
    case DW_OP_addrx:
    case DW_OP_GNU_addr_index:
        if (dwarf_getlocation_attr(location, op, &attr) != 0 ||
            dwarf_formaddr(&attr, &address) != 0)
            return false;
        *ret = address;
        return true;
    default:
        return false;
    }
}

static bool add_variable(struct types_reader *reader, struct entry *entry)
{
    struct variable_read read = {.type = entry->type, .origin = entry->origin};
    Dwarf_Op *op;
    size_t n;
    if (!entry->has_location)
        return add_declaration(reader, entry);
    if (dwarf_getlocation(&entry->location, &op, &n) != 0 || !n || n > 2 ||
        !address_of_op(&entry->location, op, &read.variable.vaddr))
        return true;
    read.variable.tls = n == 2 && (op[1].atom == DW_OP_form_tls_address ||
                                   op[1].atom == DW_OP_GNU_push_tls_address);
    if (n == 2 && !read.variable.tls)
        return true;
    if (!put_string(reader, entry->name, true, &read.variable.name) ||
        !put_string(reader, entry->linkage, false, &read.variable.linkage))
        return false;
    return keep_room(reader, hx_vec_push(&reader->variables, read));
}

/* --- a unit ---------------------------------------------------------------------- */

struct level {
    Dwarf_Die die;
    size_t name;     /* how long that of what the level is in is */
    uint32_t record; /* that it is in; 0: none */
};

/* One entry; *ret_record: what is in it belongs to this record; true: it is to be looked into. */
static bool visit_entry(struct types_reader *reader, struct level *level, uint32_t *ret_record)
{
    const int tag = dwarf_tag(&level->die);
    *ret_record = 0;
    if (tag == DW_TAG_lexical_block)
        return true;
    switch (tag) {
    case DW_TAG_structure_type:
    case DW_TAG_class_type:
    case DW_TAG_union_type:
    case DW_TAG_interface_type:
    case DW_TAG_enumeration_type:
    case DW_TAG_base_type:
    case DW_TAG_pointer_type:
    case DW_TAG_reference_type:
    case DW_TAG_rvalue_reference_type:
    case DW_TAG_array_type:
    case DW_TAG_typedef:
    case DW_TAG_const_type:
    case DW_TAG_volatile_type:
    case DW_TAG_restrict_type:
    case DW_TAG_atomic_type:
    case DW_TAG_subroutine_type:
    case DW_TAG_unspecified_type:
    case DW_TAG_ptr_to_member_type:
    case DW_TAG_member:
    case DW_TAG_inheritance:
    case DW_TAG_variable:
    case DW_TAG_namespace:
    case DW_TAG_subprogram:
    case DW_TAG_imported_unit:
        break;
    default:
        return false;
    }
    struct entry entry = read_entry(&level->die);
    if (entry.has_type)
        need_unit(reader, &entry, &entry.type_die);
    if (tag == DW_TAG_variable && entry.origin)
        need_unit(reader, &entry, &entry.origin_die);
    switch (tag) {
    case DW_TAG_structure_type:
    case DW_TAG_class_type:
    case DW_TAG_union_type:
    case DW_TAG_interface_type:
        if (!add_record(reader, &entry, ret_record))
            return false;
        break;
    case DW_TAG_enumeration_type:
        (void)add_enum(reader, &entry);
        return false;
    case DW_TAG_base_type:
        (void)add_base(reader, &entry);
        return false;
    case DW_TAG_pointer_type:
    case DW_TAG_reference_type:
    case DW_TAG_rvalue_reference_type:
        (void)add_pointer(reader, &entry);
        return false;
    case DW_TAG_array_type:
        (void)add_array(reader, &entry);
        return false;
    case DW_TAG_typedef:
        (void)add_typedef(reader, &entry);
        return false;
    case DW_TAG_const_type:
    case DW_TAG_volatile_type:
    case DW_TAG_restrict_type:
    case DW_TAG_atomic_type:
        (void)add_alias(reader, &entry, &entry.type_die, entry.has_type);
        return false;
    case DW_TAG_subroutine_type:
        (void)know_entry(reader, &entry, 0);
        return false;
    case DW_TAG_unspecified_type:
    case DW_TAG_ptr_to_member_type:
        entry.size = entry.has_size ? entry.size : 8;
        entry.encoding = 0;
        (void)add_base(reader, &entry);
        return false;
    case DW_TAG_member:
    case DW_TAG_inheritance:
        if (tag == DW_TAG_member && (entry.is_static || entry.declared))
            (void)add_declaration(reader, &entry);
        else if (level->record)
            (void)add_field(reader, &entry, level->record);
        return false;
    case DW_TAG_variable:
        (void)add_variable(reader, &entry);
        return false;
    case DW_TAG_imported_unit:
        if (entry.has_import)
            need_unit(reader, &entry, &entry.origin_die);
        return false;
    case DW_TAG_namespace:
        if (!entry.name)
            entry.name = "(anonymous namespace)";
        break;
    case DW_TAG_subprogram: /* with code: what it is called stands elsewhere */
        if (!entry.name && entry.origin)
            entry.name = dwarf_diename(&entry.origin_die);
        break;
    default:
        break;
    }
    /* what is in it has its name in front */
    if (*ret_record && entry.origin && !reader->name.n) {
        const uint32_t name = reader->build.types.v[*ret_record].name;
        hx_text_puts(&reader->name, reader->build.strings.v + name);
    } else if (entry.name && reader->name.n + strlen(entry.name) < NAME_BYTES) {
        if (reader->name.n)
            hx_text_puts(&reader->name, "::");
        hx_text_puts(&reader->name, entry.name);
    }
    return !reader->name.failed;
}

static bool go_on(struct types_reader *reader)
{
    if (++reader->steps % CLOCK_GAP == 0 && hx_now_ns() >= reader->deadline_ns)
        return stop_reading(reader, hx_error_cancelled("types"));
    return !reader->stopped;
}

static void walk_unit(struct types_reader *reader, Dwarf_Die *unit)
{
    struct level level[DEPTH_MAX];
    size_t depth = 0;
    uint32_t *known;
    hx_error *err = hx_pairs_at(&reader->walked, address_of(unit), &known);
    if (err) {
        stop_reading(reader, err);
        return;
    }
    if (*known != HX_NO_PAIR || dwarf_child(unit, &level[0].die) != 0)
        return;
    *known = 0;
    level[0].name = 0;
    level[0].record = 0;
    while (go_on(reader)) {
        uint32_t record;
        reader->name.n = level[depth].name;
        if (reader->name.s)
            reader->name.s[reader->name.n] = 0;
        bool enter = visit_entry(reader, &level[depth], &record) && depth + 1 < DEPTH_MAX &&
                     !reader->stopped;
        if (enter && dwarf_child(&level[depth].die, &level[depth + 1].die) == 0) {
            level[++depth].name = reader->name.n;
            level[depth].record = record;
            continue;
        }
        while (!hx_code_dwarf_sibling(reader->dwarf, &level[depth].die, &level[depth].die))
            if (!depth--)
                return;
    }
}

/* --- units together -------------------------------------------------------------- */

/* The type that an entry is, through names for names. */
static uint32_t type_of_entry(struct types_reader *reader, uint64_t address)
{
    for (unsigned i = 0; address && i < CHAIN_MAX; i++) {
        const uint32_t number = hx_pairs_find(&reader->entries, address);
        if (number == HX_NO_PAIR)
            break;
        if (!(number & ALIAS))
            return number;
        address = reader->aliases.v[number & ~(ALIAS | STAND_IN)];
    }
    reader->build.left_out += address != 0;
    return 0;
}

static void name_nameless(struct types_reader *reader)
{
    for (size_t i = 0; i < reader->namings.n; i++) {
        uint32_t number = hx_pairs_find(&reader->entries, reader->namings.v[i].type);
        if (number != HX_NO_PAIR && number & STAND_IN)
            number = type_of_entry(reader, reader->namings.v[i].type);
        if (number == HX_NO_PAIR || number & ALIAS || number < reader->hashes.n)
            continue;
        struct hx_type_entry *type = &reader->build.types.v[number];
        if (!type->name && (type->kind == HX_TYPE_RECORD || type->kind == HX_TYPE_UNION ||
                            type->kind == HX_TYPE_ENUM))
            type->name = reader->namings.v[i].name;
    }
}

static int compare_owners(const void *a, const void *b)
{
    const struct reference *x = *(const struct reference *const *)a,
                           *y = *(const struct reference *const *)b;
    if (x->owner != y->owner)
        return x->owner < y->owner ? -1 : 1;
    return x < y ? -1 : x > y;
}

static hx_error *resolve_references(struct types_reader *reader)
{
    const size_t n = reader->references.n;
    reader->first_field = (uint32_t)reader->build.fields.n;
    HX_FREE const struct reference **order = malloc((n + 1) * sizeof *order);
    HX_NEED(order);
    for (size_t i = 0; i < n; i++)
        order[i] = &reader->references.v[i];
    qsort(order, n, sizeof *order, compare_owners);
    for (size_t i = 0; i < n; i++) {
        struct hx_type_entry *owner = &reader->build.types.v[order[i]->owner];
        const uint32_t type = type_of_entry(reader, order[i]->to);
        if (!order[i]->is_field) {
            owner->target = type;
            continue;
        }
        struct hx_type_field field = order[i]->field;
        field.type = type;
        if (!owner->n++)
            owner->first = (uint32_t)reader->build.fields.n;
        HX_NEED(hx_vec_push(&reader->build.fields, field));
    }
    return NULL;
}

/* What a variable's origins say of it. */
static struct hx_type_variable resolve_variable(struct types_reader *reader,
                                                const struct variable_read *read)
{
    struct hx_type_variable variable = read->variable;
    uint64_t type = read->type, origin = read->origin;
    for (unsigned i = 0; origin && i < CHAIN_MAX; i++) {
        const uint32_t number = hx_pairs_find(&reader->declarations, origin);
        if (number == HX_NO_PAIR)
            break;
        const struct declaration *declared = &reader->declared.v[number];
        variable.name = declared->name ? declared->name : variable.name;
        type = type ? type : declared->type;
        origin = declared->origin;
    }
    variable.type = type_of_entry(reader, type);
    return variable;
}

/* Types that are there already give way to these; the others move together. */
static hx_error *keep_new_types(struct types_reader *reader)
{
    struct hx_type_build *build = &reader->build;
    const uint32_t from = (uint32_t)reader->hashes.n;
    const size_t n = build->types.n - from;
    HX_FREE uint64_t *hash = malloc((n + 1) * sizeof *hash);
    HX_FREE uint32_t *number = malloc((n + 1) * sizeof *number);
    HX_NEED(hash && number && hx_vec_reserve(&reader->hashes, build->types.n + 1));
    HX_TRY(hx_type_build_hash(build, from, reader->hashes.v, hash));
    uint32_t kept = from;
    for (size_t i = 0; i < n; i++) {
        uint32_t at = 0;
        if (hx_index_next(&reader->by_hash, hash[i], &at, &number[i]))
            continue;
        number[i] = kept;
        HX_TRY(hx_index_add(&reader->by_hash, hash[i], kept));
        reader->hashes.v[reader->hashes.n++] = hash[i];
        build->types.v[kept++] = build->types.v[from + i];
    }
    build->types.n = kept;
    uint32_t fields = reader->first_field;
    for (uint32_t i = from; i < kept; i++) {
        struct hx_type_entry *type = &build->types.v[i];
        if (type->target >= from)
            type->target = number[type->target - from];
        const uint32_t first = fields;
        for (uint32_t k = 0; k < type->n; k++) {
            struct hx_type_field field = build->fields.v[type->first + k];
            if (field.type >= from)
                field.type = number[field.type - from];
            build->fields.v[fields++] = field;
        }
        type->first = first;
    }
    build->fields.n = fields;
    for (size_t i = 0; i < reader->variables.n; i++) {
        struct hx_type_variable variable = resolve_variable(reader, &reader->variables.v[i]);
        if (variable.type >= from)
            variable.type = number[variable.type - from];
        if (variable.type)
            HX_NEED(hx_vec_push(&build->variables, variable));
    }
    /* entries of these units, for units that refer to them */
    for (size_t i = 0; i < reader->known.n; i++) {
        uint32_t *type;
        HX_TRY(hx_pairs_at(&reader->entries, reader->known.v[i], &type));
        if (!(*type & ALIAS) && *type >= from)
            *type = number[*type - from];
    }
    return NULL;
}

/* Entries of units that are done are known on only where units refer to one another; a unit whose
 * entries are forgotten is read again when it is referred to. */
static void forget_entries(struct types_reader *reader)
{
    if (reader->shared && reader->entries.n * 64 < reader->build.most_bytes)
        return;
    hx_pairs_free(&reader->entries);
    hx_pairs_free(&reader->declarations);
    hx_pairs_free(&reader->walked);
    reader->aliases.n = reader->declared.n = 0;
}

static bool read_units(void *context, Dwarf_Die *unit)
{
    struct types_reader *reader = context;
    const int tag = dwarf_tag(unit);
    reader->references.n = reader->variables.n = reader->namings.n = reader->units.n =
        reader->known.n = 0;
    /* these are read with the first unit that refers to them */
    if (tag == DW_TAG_type_unit || tag == DW_TAG_partial_unit)
        return !reader->stopped;
    if (hx_pairs_find(&reader->walked, address_of(unit)) != HX_NO_PAIR)
        return !reader->stopped;
    walk_unit(reader, unit);
    for (size_t i = 0; i < reader->units.n && !reader->stopped; i++) {
        Dwarf_Die other = reader->units.v[i];
        walk_unit(reader, &other);
    }
    if (reader->stopped)
        return false;
    name_nameless(reader);
    hx_error *err = resolve_references(reader);
    if (!err)
        err = keep_new_types(reader);
    forget_entries(reader);
    return err ? stop_reading(reader, err) : true;
}

hx_error *hx_types_read(struct hx_code_dwarf *dwarf, uint64_t deadline_ns, void **ret,
                        size_t *ret_bytes)
{
    struct types_reader reader = {.dwarf = dwarf, .deadline_ns = deadline_ns};
    HX_TRY(hx_type_build_init(&reader.build));
    hx_error *err = hx_vec_push(&reader.hashes, 0) ? NULL : hx_error_nomem();
    reader.build.most_bytes = LEAST_BYTES + hx_code_dwarf_each_unit(dwarf, NULL, NULL) / 4;
    const uint64_t spent_ns = hx_code_dwarf_allow(dwarf, HX_READ_TYPES_NS, 0);
    if (!err)
        (void)hx_code_dwarf_each_unit(dwarf, read_units, &reader);
    hx_code_dwarf_allow(dwarf, HX_READ_FILE_NS, spent_ns);
    err = err ? err : hx_steal(reader.err);
    if (!err)
        err = hx_type_build_finish(&reader.build, NULL, ret, ret_bytes);
    hx_type_build_deinit(&reader.build);
    hx_pairs_free(&reader.entries);
    hx_pairs_free(&reader.declarations);
    hx_pairs_free(&reader.walked);
    hx_vec_free(&reader.aliases);
    hx_vec_free(&reader.declared);
    hx_vec_free(&reader.hashes);
    hx_index_free(&reader.by_hash);
    hx_vec_free(&reader.references);
    hx_vec_free(&reader.variables);
    hx_vec_free(&reader.namings);
    hx_vec_free(&reader.units);
    hx_vec_free(&reader.known);
    hx_text_free(&reader.name);
    return err;
}
