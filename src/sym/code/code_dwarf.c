/* code_dwarf.c - functions, inlined calls and lines by debug information.
 *
 * A unit is walked once, when an address in it is first asked for: its functions and what was
 * inlined into them are put down with their ranges. The number of entries looked at has a bound
 * in proportion to the size of the tables, so that tables that lead in circles end.
 */
#include "sym/code/code_private.h"

#include "base/lower_bound.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define DEPTH_MAX   256                 /* of entries within entries */
#define LOOK_BACK   64                  /* ranges that lie over each other */
#define INLINED_MAX ((uint32_t)1 << 20) /* ranges looked through in one function */
#define LISTEN_GAP  256                 /* entries between two looks whether to end */
#define NODE_NONE   UINT32_MAX

/* A function with code, or a call that was inlined. */
struct node {
    Dwarf_Off die;
    uint32_t parent;      /* what it was inlined into; NODE_NONE: a function */
    uint32_t ranges, end; /* of those in it, in unit.ranges, its own included */
};

struct range {
    uint64_t start, end;
    uint32_t node;
};

/* A class or namespace, or a function that classes may be in, whose entries lie in [die, end) and
 * in its parent. */
struct space {
    Dwarf_Off die, end;
    uint32_t parent; /* NODE_NONE: in none */
};

struct unit {
    Dwarf_Die skeleton, die; /* the same, unless its entries are in a file of their own */
    bool walked;
    bool cxx; /* functions have classes in them, and what these call functions */
    HX_VEC(struct node) nodes;
    HX_VEC(struct range) ranges;    /* in the order of the walk */
    HX_VEC(struct range) functions; /* those of functions, by start */
    HX_VEC(struct space) spaces;    /* by die */
};

/* The debug information of a file. In `ranges` node is the number of a unit; sorted by start. */
struct hx_code_dwarf {
    const struct hx_module_file *file;
    struct hx_reading *reading;
    struct hx_code_tables tables, alt;
    bool guarded;      /* split units can be read */
    uint64_t budget;   /* entries and ranges that may still be looked at */
    uint64_t spent_ns; /* processor time of earlier calls, and when this one began */
    uint64_t begun_ns;
    uint64_t allowed_ns;
    HX_VEC(struct unit) units;
    HX_VEC(struct range) ranges;
    struct hx_code_store kept; /* strings that are made */
};

/* --- units ------------------------------------------------------------------- */

static bool is_code(const struct hx_code_dwarf *dwarf, uint64_t start, uint64_t end)
{
    for (size_t i = 0; i < dwarf->file->layout.load.n; i++) {
        const struct hx_elf_segment *seg = &dwarf->file->layout.load.v[i];
        if (seg->flags & PF_X && start >= seg->vaddr && start < end &&
            end - seg->vaddr <= seg->memsz)
            return true;
    }
    return false; /* that of a function which the linker left out */
}

static uint64_t processor_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void hx_code_dwarf_begin(struct hx_code_dwarf *dwarf)
{
    dwarf->begun_ns = processor_ns();
}

void hx_code_dwarf_end(struct hx_code_dwarf *dwarf)
{
    dwarf->spent_ns += processor_ns() - dwarf->begun_ns;
}

uint64_t hx_code_dwarf_allow(struct hx_code_dwarf *dwarf, uint64_t ns, uint64_t spent_ns)
{
    const uint64_t spent = dwarf->spent_ns;
    dwarf->allowed_ns = ns;
    dwarf->spent_ns = spent_ns;
    dwarf->begun_ns = processor_ns();
    return spent;
}

bool hx_code_dwarf_is_spent(const struct hx_code_dwarf *dwarf)
{
    return !dwarf->budget;
}

static bool spend_die(struct hx_code_dwarf *dwarf)
{
    if (!dwarf->budget)
        return false;
    if (--dwarf->budget % LISTEN_GAP)
        return true;
    if (dwarf->spent_ns + (processor_ns() - dwarf->begun_ns) > dwarf->allowed_ns) {
        dwarf->budget = 0;
        hx_reading_leave(dwarf->reading, dwarf->file->path,
                         dwarf->allowed_ns == HX_READ_FILE_NS
                             ? "debug information, after 10 s of reading it"
                             : "types, after a minute of reading them");
    }
    return dwarf->budget && !hx_reading_ended(dwarf->reading);
}

static bool is_behind(Dwarf_Die *die, Dwarf_Die *other)
{
    return other->cu == die->cu && (uint8_t *)other->addr > (uint8_t *)die->addr;
}

/* libdw steps over what is in an entry in one call, which nobody can end; one that says where its
 * sibling is, or has nothing in it, takes one step. */
bool hx_code_dwarf_sibling(struct hx_code_dwarf *dwarf, Dwarf_Die *die, Dwarf_Die *ret)
{
    Dwarf_Die at = *die, next;
    for (uint64_t depth = 0;;) {
        if (!spend_die(dwarf))
            return false;
        bool within = !dwarf_hasattr(&at, DW_AT_sibling) && dwarf_child(&at, &next) == 0;
        int found = within ? 0 : dwarf_siblingof(&at, &next);
        depth += within;
        if (found == 0 && !depth) {
            bool later = is_behind(die, &next);
            *ret = next;
            return later;
        }
        if (found > 0 && depth && next.addr) { /* a zero ends the level; more may follow it */
            uint8_t *byte = next.addr;
            while (depth && !*byte) {
                byte++;
                depth--;
            }
            next = (Dwarf_Die){.addr = byte, .cu = at.cu};
            if (!*byte)
                return false;
            if (!depth) {
                bool later = dwarf_tag(&next) != DW_TAG_invalid && is_behind(die, &next);
                *ret = next;
                return later;
            }
        } else if (found != 0) {
            return false;
        }
        if (!is_behind(&at, &next))
            return false;
        at = next;
    }
}

/* The ranges of an entry, one after the other. */
struct ranges {
    ptrdiff_t at;
    Dwarf_Addr base, start, end;
};

static bool next_range(struct hx_code_dwarf *dwarf, Dwarf_Die *die, struct ranges *ranges)
{
    if (!spend_die(dwarf))
        return false;
    ranges->at = dwarf_ranges(die, ranges->at, &ranges->base, &ranges->start, &ranges->end);
    return ranges->at > 0;
}

static int compare_range_starts(const void *a, const void *b)
{
    const struct range *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->end > y->end ? -1 : x->end < y->end;
}

static const char *string_of(Dwarf_Die *die, unsigned name)
{
    Dwarf_Attribute attr;
    return dwarf_attr(die, name, &attr) ? dwarf_formstring(&attr) : NULL;
}

/* libdw maps the file of a split unit, which a compiler may cut off to write it anew. A copy takes
 * the place of the mapping, for whoever reads there. */
static void keep_own(Dwarf *split)
{
    size_t n;
    char *file = elf_rawfile(dwarf_getelf(split), &n);
    if (!file || !n || (uintptr_t)file % HX_PAGE)
        return; /* it was read, not mapped */
    size_t room = (n + HX_PAGE - 1) / HX_PAGE * HX_PAGE;
    void *copy = mmap(NULL, room, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (copy == MAP_FAILED)
        return;
    memcpy(copy, file, n);
    if (mremap(copy, room, room, MREMAP_MAYMOVE | MREMAP_FIXED, file) == MAP_FAILED)
        munmap(copy, room);
}

/* Where the entries of a unit are: in itself, or in the split-off file if it can be had. */
static void find_split(const struct hx_code_dwarf *dwarf, struct unit *unit)
{
    uint8_t type;
    Dwarf_Die die, split;
    const char *name = string_of(&unit->skeleton, DW_AT_dwo_name);
    if (!name)
        name = string_of(&unit->skeleton, DW_AT_GNU_dwo_name);
    if (!name)
        return;
    if (!dwarf->guarded) {
        hx_reading_leave(dwarf->reading, dwarf->file->path,
                         "split units, as the kernel cannot watch what their reader opens");
        return;
    }
    if (dwarf_cu_info(unit->skeleton.cu, NULL, &type, &die, &split, NULL, NULL, NULL) == 0 &&
        split.cu) {
        if (unit->die.cu != split.cu)
            keep_own(dwarf_cu_getdwarf(split.cu));
        unit->die = split;
    } else {
        hx_reading_leave(dwarf->reading, dwarf->file->path,
                         "split units whose .dwo file is not there, is another one or has several "
                         "tables (-fdebug-types-section), or that are packed (.dwp)");
    }
}

static void walk_unit(struct hx_code_dwarf *dwarf, struct unit *unit);

static bool add_unit(struct hx_code_dwarf *dwarf, Dwarf_Die *die)
{
    struct ranges ranges = {0};
    uint32_t number = (uint32_t)dwarf->units.n;
    bool any = false;
    if (!hx_vec_push(&dwarf->units, (struct unit){.skeleton = *die, .die = *die}))
        return false;
    while (next_range(dwarf, die, &ranges)) {
        any = true;
        if (is_code(dwarf, ranges.start, ranges.end) &&
            !hx_vec_push(&dwarf->ranges, (struct range){ranges.start, ranges.end, number}))
            return false;
    }
    if (any)
        return true;
    /* A unit that does not say where its code is. */
    struct unit *unit = &dwarf->units.v[number];
    walk_unit(dwarf, unit);
    for (size_t i = 0; i < unit->functions.n; i++)
        if (!hx_vec_push(&dwarf->ranges, (struct range){unit->functions.v[i].start,
                                                        unit->functions.v[i].end, number}))
            return false;
    return true;
}

static void find_units(struct hx_code_dwarf *dwarf)
{
    Dwarf_CU *cu = NULL;
    Dwarf_Die die;
    uint8_t type;
    while (dwarf->units.n < HX_READ_UNITS && spend_die(dwarf) &&
           dwarf_get_units(dwarf->tables.dwarf, cu, &cu, NULL, &type, &die, NULL) == 0) {
        bool has_code = type == DW_UT_compile || type == DW_UT_skeleton;
        if (has_code && dwarf_tag(&die) != DW_TAG_partial_unit && !add_unit(dwarf, &die))
            break;
    }
    if (dwarf->ranges.n)
        qsort(dwarf->ranges.v, dwarf->ranges.n, sizeof *dwarf->ranges.v, compare_range_starts);
}

uint64_t hx_code_dwarf_each_unit(struct hx_code_dwarf *dwarf,
                                 bool (*each)(void *context, Dwarf_Die *unit), void *context)
{
    Dwarf_CU *cu = NULL;
    Dwarf_Die die;
    uint8_t type;
    hx_code_dwarf_begin(dwarf);
    for (size_t k = 0, n = 0; each && n < HX_READ_UNITS && spend_die(dwarf); n++) {
        if (dwarf_get_units(dwarf->tables.dwarf, cu, &cu, NULL, &type, &die, NULL) != 0)
            break;
        bool known = (type == DW_UT_compile || type == DW_UT_skeleton) &&
                     dwarf_tag(&die) != DW_TAG_partial_unit && k < dwarf->units.n;
        if (known && type == DW_UT_skeleton)
            find_split(dwarf, &dwarf->units.v[k]);
        if (known)
            die = dwarf->units.v[k++].die;
        if (!each(context, &die))
            break;
    }
    hx_code_dwarf_end(dwarf);
    return dwarf->tables.bytes;
}

struct hx_code_dwarf *hx_code_dwarf_create(const struct hx_module_file *file,
                                           struct hx_reading *reading, const int fds[3],
                                           bool guarded)
{
    struct hx_code_dwarf *dwarf = malloc(sizeof *dwarf);
    if (!dwarf)
        return NULL;
    *dwarf = (struct hx_code_dwarf){
        .file = file, .reading = reading, .guarded = guarded, .allowed_ns = HX_READ_FILE_NS};
    if (!hx_code_tables_open(fds[1], reading, file->path, &dwarf->tables) &&
        !hx_code_tables_open(fds[0], reading, file->path, &dwarf->tables)) {
        free(dwarf);
        return NULL;
    }
    dwarf->budget = dwarf->tables.bytes;
    /* Without one libdw would go and look for it. */
    if (hx_code_tables_open(fds[2], reading, file->path, &dwarf->alt) ||
        hx_code_tables_none(&dwarf->alt))
        dwarf_setalt(dwarf->tables.dwarf, dwarf->alt.dwarf);
    hx_code_dwarf_begin(dwarf);
    find_units(dwarf);
    hx_code_dwarf_end(dwarf);
    return dwarf;
}

void hx_code_dwarf_destroy(struct hx_code_dwarf *dwarf)
{
    if (!dwarf)
        return;
    for (size_t i = 0; i < dwarf->units.n; i++) {
        hx_vec_free(&dwarf->units.v[i].nodes);
        hx_vec_free(&dwarf->units.v[i].ranges);
        hx_vec_free(&dwarf->units.v[i].functions);
        hx_vec_free(&dwarf->units.v[i].spaces);
    }
    hx_vec_free(&dwarf->units);
    hx_vec_free(&dwarf->ranges);
    hx_code_store_free(&dwarf->kept);
    hx_code_tables_close(&dwarf->tables);
    hx_code_tables_close(&dwarf->alt);
    free(dwarf);
}

/* --- the walk of one unit ---------------------------------------------------- */

/* Entries that can have functions in them. */
static bool can_hold_code(int tag)
{
    switch (tag) {
    case DW_TAG_namespace:
    case DW_TAG_module:
    case DW_TAG_class_type:
    case DW_TAG_structure_type:
    case DW_TAG_union_type:
    case DW_TAG_interface_type:
    case DW_TAG_subprogram:
    case DW_TAG_inlined_subroutine:
    case DW_TAG_lexical_block:
    case DW_TAG_try_block:
    case DW_TAG_catch_block:
    case DW_TAG_with_stmt:
    case DW_TAG_common_block:
        return true;
    default:
        return false;
    }
}

/* Puts an entry down if it is a function or inlined call with code; its number, else NODE_NONE. */
static uint32_t visit_function_die(struct hx_code_dwarf *dwarf, struct unit *unit, Dwarf_Die *die,
                                   int tag, uint32_t parent)
{
    struct ranges ranges = {0};
    uint32_t number = (uint32_t)unit->nodes.n;
    struct node node = {.die = dwarf_dieoffset(die),
                        .parent = tag == DW_TAG_subprogram ? NODE_NONE : parent,
                        .ranges = (uint32_t)unit->ranges.n};
    if (number == NODE_NONE || unit->ranges.n >= UINT32_MAX / 2 || !hx_vec_push(&unit->nodes, node))
        return NODE_NONE;
    while (next_range(dwarf, die, &ranges)) {
        struct range range = {ranges.start, ranges.end, number};
        if (!is_code(dwarf, range.start, range.end))
            continue;
        if (!hx_vec_push(&unit->ranges, range) ||
            (tag == DW_TAG_subprogram && !hx_vec_push(&unit->functions, range)))
            break;
    }
    if (node.ranges < unit->ranges.n)
        return number;
    unit->nodes.n--; /* an abstract one, or one that was left out */
    return NODE_NONE;
}

struct level {
    Dwarf_Die die;
    uint32_t node;  /* the innermost one that the entries of this level are in */
    uint32_t own;   /* what the entry itself is */
    uint32_t space; /* the same of classes and namespaces */
    uint32_t own_space;
};

static bool is_cxx(struct unit *unit)
{
    switch (dwarf_srclang(&unit->die)) {
    case DW_LANG_C_plus_plus:
    case DW_LANG_C_plus_plus_03:
    case DW_LANG_C_plus_plus_11:
    case DW_LANG_C_plus_plus_14:
    case 0x2b: /* C++17 */
    case 0x2c: /* C++20 */
        return true;
    default:
        return false;
    }
}

/* Puts down a class or namespace; its number, else NODE_NONE. */
static uint32_t enter_space(struct unit *unit, Dwarf_Die *die, int tag, uint32_t parent)
{
    uint32_t number = (uint32_t)unit->spaces.n;
    struct space space = {dwarf_dieoffset(die), UINT64_MAX, parent};
    if (tag != DW_TAG_namespace && tag != DW_TAG_class_type && tag != DW_TAG_structure_type &&
        tag != DW_TAG_union_type && (tag != DW_TAG_subprogram || !unit->cxx))
        return NODE_NONE;
    return number != NODE_NONE && hx_vec_push(&unit->spaces, space) ? number : NODE_NONE;
}

/* Goes to the next entry at this level or above; false at the end. */
static bool advance_die(struct hx_code_dwarf *dwarf, struct unit *unit, struct level *level,
                        size_t *depth)
{
    for (;;) {
        struct level *at = &level[*depth];
        Dwarf_Die next;
        if (at->own != NODE_NONE)
            unit->nodes.v[at->own].end = (uint32_t)unit->ranges.n;
        at->own = NODE_NONE;
        uint32_t space = at->own_space;
        at->own_space = NODE_NONE;
        if (hx_code_dwarf_sibling(dwarf, &at->die, &next)) {
            if (space != NODE_NONE)
                unit->spaces.v[space].end = dwarf_dieoffset(&next);
            at->die = next;
            return true;
        }
        if (!*depth)
            return false;
        --*depth;
    }
}

static void walk_unit(struct hx_code_dwarf *dwarf, struct unit *unit)
{
    struct level level[DEPTH_MAX];
    size_t depth = 0;
    unit->walked = true;
    find_split(dwarf, unit);
    unit->cxx = is_cxx(unit);
    if (dwarf_child(&unit->die, &level[0].die) != 0)
        return;
    level[0].node = level[0].own = NODE_NONE;
    level[0].space = level[0].own_space = NODE_NONE;
    do {
        struct level *at = &level[depth];
        int tag = dwarf_tag(&at->die);
        bool has_code =
            tag == DW_TAG_subprogram || (tag == DW_TAG_inlined_subroutine && at->node != NODE_NONE);
        if (has_code)
            at->own = visit_function_die(dwarf, unit, &at->die, tag, at->node);
        /* What a class is called is told by the function that it is in, also by one without code of
         * its own. */
        bool named =
            unit->cxx && tag == DW_TAG_subprogram && !dwarf_hasattr(&at->die, DW_AT_declaration);
        bool enter = can_hold_code(tag) && depth + 1 < DEPTH_MAX &&
                     (!has_code || named || at->own != NODE_NONE);
        if (enter && dwarf_child(&at->die, &level[depth + 1].die) == 0) {
            level[depth + 1].node = at->own != NODE_NONE ? at->own : at->node;
            level[depth + 1].own = level[depth + 1].own_space = NODE_NONE;
            at->own_space = enter_space(unit, &at->die, tag, at->space);
            level[depth + 1].space = at->own_space != NODE_NONE ? at->own_space : at->space;
            depth++;
        } else if (!advance_die(dwarf, unit, level, &depth)) {
            break;
        }
    } while (spend_die(dwarf));
    for (;; depth--) {
        if (level[depth].own != NODE_NONE)
            unit->nodes.v[level[depth].own].end = (uint32_t)unit->ranges.n;
        if (!depth)
            break;
    }
    if (unit->functions.n)
        qsort(unit->functions.v, unit->functions.n, sizeof *unit->functions.v,
              compare_range_starts);
}

/* --- lookup ------------------------------------------------------------------ */

/* The range around vaddr that begins last; NULL when none is near. */
static const struct range *find_range(const struct range *ranges, size_t n, uint64_t vaddr)
{
    size_t low = HX_LOWER_BOUND(n, i, ranges[i].start <= vaddr);
    for (size_t i = 0; i < LOOK_BACK && low > i; i++)
        if (vaddr < ranges[low - 1 - i].end)
            return &ranges[low - 1 - i];
    return NULL;
}

/* The innermost of what a function's code at vaddr was made of. */
static uint32_t find_innermost(const struct unit *unit, uint32_t function, uint64_t vaddr)
{
    uint32_t found = function, first = unit->nodes.v[function].ranges;
    uint32_t end = unit->nodes.v[function].end;
    if (end - first > INLINED_MAX)
        end = first + INLINED_MAX;
    for (uint32_t i = first; i < end; i++)
        if (vaddr >= unit->ranges.v[i].start && vaddr < unit->ranges.v[i].end)
            found = unit->ranges.v[i].node;
    return found;
}

static uint64_t die_number(Dwarf_Die *die, unsigned name)
{
    Dwarf_Attribute attr;
    Dwarf_Word value;
    return dwarf_attr(die, name, &attr) && dwarf_formudata(&attr, &value) == 0 ? value : 0;
}

static const char *inherited_string(Dwarf_Die *die, unsigned name)
{
    Dwarf_Attribute attr;
    return dwarf_attr_integrate(die, name, &attr) ? dwarf_formstring(&attr) : NULL;
}

/* May libdw read the line table of a unit? It makes a table of all of it, in one call. */
static bool has_lines(struct hx_code_dwarf *dwarf, Dwarf_Die *unit)
{
    const struct hx_code_tables *tables =
        dwarf_cu_getdwarf(unit->cu) == dwarf->alt.dwarf ? &dwarf->alt : &dwarf->tables;
    Dwarf_Attribute attr;
    Dwarf_Word at;
    uint64_t size;
    uint32_t short_size;
    if (dwarf_cu_getdwarf(unit->cu) != tables->dwarf)
        return true; /* of a file that was found worth reading */
    if (!dwarf_attr(unit, DW_AT_stmt_list, &attr) || dwarf_formudata(&attr, &at) != 0 ||
        at >= tables->n_lines)
        return false;
    memcpy(&short_size, tables->lines + at, sizeof short_size); /* zeros follow the table */
    memcpy(&size, tables->lines + at + sizeof short_size, sizeof size);
    if ((short_size == UINT32_MAX ? size : short_size) <= HX_READ_LINES)
        return !hx_reading_ended(dwarf->reading);
    hx_reading_leave(dwarf->reading, dwarf->file->path, "lines of units with more than 16 MiB");
    return false;
}

static const char *dwarf_file_path(struct hx_code_dwarf *dwarf, Dwarf_Die *unit, uint64_t number)
{
    Dwarf_Files *files;
    size_t n;
    return has_lines(dwarf, unit) && dwarf_getsrcfiles(unit, &files, &n) == 0 && number < n
               ? dwarf_filesrc(files, number, NULL, NULL)
               : NULL;
}

/* The path of a file that a unit's entries mention by number. */
static const char *file_name(struct hx_code_dwarf *dwarf, struct unit *unit, uint64_t number)
{
    const char *path = dwarf_file_path(dwarf, &unit->die, number);
    return path ? path : dwarf_file_path(dwarf, &unit->skeleton, number);
}

static void find_line(struct hx_code_dwarf *dwarf, struct unit *unit, uint64_t vaddr,
                      const char **ret_source, uint32_t *ret_line)
{
    Dwarf_Line *line =
        has_lines(dwarf, &unit->skeleton) ? dwarf_getsrc_die(&unit->skeleton, vaddr) : NULL;
    int number = 0;
    *ret_source = line ? dwarf_linesrc(line, NULL, NULL) : NULL;
    if (line && dwarf_lineno(line, &number) == 0 && number > 0)
        *ret_line = (uint32_t)number;
}

/* The innermost class or namespace around an entry; what it lies in counts, too, since the last
 * entry of a level does not tell where it ends. */
static uint32_t find_space(const struct unit *unit, Dwarf_Off die)
{
    size_t low = HX_LOWER_BOUND(unit->spaces.n, i, unit->spaces.v[i].die < die);
    uint32_t found = low ? (uint32_t)low - 1 : NODE_NONE;
    for (uint32_t at = found; at != NODE_NONE; at = unit->spaces.v[at].parent)
        if (unit->spaces.v[at].end <= die)
            found = unit->spaces.v[at].parent;
    return found;
}

/* The entry that declares what this one defines or is an instance of. False: it cannot be had. */
static bool find_declaration(Dwarf_Die *die)
{
    Dwarf_Attribute attr;
    for (int i = 0; i < 4; i++)
        if (!dwarf_attr(die, DW_AT_abstract_origin, &attr) &&
            !dwarf_attr(die, DW_AT_specification, &attr))
            break;
        else if (!dwarf_formref_die(&attr, die))
            return false;
    return true;
}

/* The file that declares an entry; number 0 is one from version 5 on. Not by dwarf_decl_file(),
 * which takes for granted that a unit with lines has files of its own: that of a split one has not.
 */
static const char *declaring_file(struct hx_code_dwarf *dwarf, Dwarf_Die *die)
{
    Dwarf_Attribute attr;
    Dwarf_Word number;
    Dwarf_Die unit;
    Dwarf_Half version;
    if (!dwarf_attr_integrate(die, DW_AT_decl_file, &attr) ||
        dwarf_formudata(&attr, &number) != 0 ||
        !dwarf_cu_die(attr.cu, &unit, &version, NULL, NULL, NULL, NULL, NULL) ||
        (number == 0 && version < 5))
        return NULL;
    return dwarf_file_path(dwarf, &unit, number);
}

static void put_declared(struct hx_code_dwarf *dwarf, Dwarf_Die *die, struct hx_code_scope *scope)
{
    int line = 0;
    scope->declared = declaring_file(dwarf, die);
    if (dwarf_decl_line(die, &line) == 0 && line > 0)
        scope->declared_line = (uint32_t)line;
}

/* What a function without a mangled name (a constructor, say) is declared in. One that the compiler
 * made for a class, such as the body of a lambda, is declared where that is. */
static void put_within(struct hx_code_dwarf *dwarf, struct unit *unit, Dwarf_Die die,
                       struct hx_code_scope *scope)
{
    while (scope->n_within < HX_CODE_WITHIN_MAX) {
        if (!find_declaration(&die) || die.cu != unit->die.cu)
            return;
        uint32_t at = find_space(unit, dwarf_dieoffset(&die));
        if (at == NODE_NONE ||
            !dwarf_offdie(dwarf_cu_getdwarf(unit->die.cu), unit->spaces.v[at].die, &die))
            return;
        const char *name = inherited_string(&die, DW_AT_name);
        if (!name && dwarf_tag(&die) == DW_TAG_namespace)
            name = "(anonymous namespace)";
        if (!scope->declared)
            put_declared(dwarf, &die, scope);
        bool body = scope->name && strncmp(scope->name, "operator()", 10) == 0;
        scope->within[scope->n_within] = name                       ? name
                                         : body && !scope->n_within ? "{lambda}"
                                                                    : "{unnamed}";
        scope->n_within++;
    }
}

static size_t put_scopes(struct hx_code_dwarf *dwarf, struct unit *unit, uint32_t node,
                         struct hx_code_scope *scopes, size_t max, const struct hx_code_scope *here)
{
    const char *source = here->source;
    uint32_t line = here->line;
    Dwarf *of = dwarf_cu_getdwarf(unit->die.cu);
    size_t n = 0;
    for (; node != NODE_NONE; node = unit->nodes.v[node].parent) {
        Dwarf_Die die;
        if (!dwarf_offdie(of, unit->nodes.v[node].die, &die))
            break;
        /* When there are too many, the one with code of its own still comes last. */
        struct hx_code_scope *scope = &scopes[n < max ? n++ : max - 1];
        *scope = (struct hx_code_scope){.linkage = inherited_string(&die, DW_AT_linkage_name),
                                        .name = inherited_string(&die, DW_AT_name),
                                        .dir = here->dir,
                                        .source = source,
                                        .line = line};
        if (!scope->linkage)
            scope->linkage = inherited_string(&die, DW_AT_MIPS_linkage_name);
        put_declared(dwarf, &die, scope);
        if (!scope->linkage)
            put_within(dwarf, unit, die, scope);
        if (unit->nodes.v[node].parent == NODE_NONE) {
            Dwarf_Addr entry;
            scope->entry = dwarf_entrypc(&die, &entry) == 0 ? entry : UINT64_MAX;
            break;
        }
        uint64_t call_line = die_number(&die, DW_AT_call_line);
        source = file_name(dwarf, unit, die_number(&die, DW_AT_call_file));
        line = call_line <= UINT32_MAX ? (uint32_t)call_line : 0;
    }
    return n;
}

/* The unit that has code at vaddr, and the innermost node there; NULL: none. */
static struct unit *find_unit(struct hx_code_dwarf *dwarf, uint64_t vaddr, uint32_t *ret)
{
    const struct range *in_unit = find_range(dwarf->ranges.v, dwarf->ranges.n, vaddr);
    *ret = NODE_NONE;
    if (!in_unit)
        return NULL;
    struct unit *unit = &dwarf->units.v[in_unit->node];
    if (!unit->walked)
        walk_unit(dwarf, unit);
    const struct range *function = find_range(unit->functions.v, unit->functions.n, vaddr);
    if (function)
        *ret = find_innermost(unit, function->node, vaddr);
    return unit;
}

size_t hx_code_dwarf_scopes(struct hx_code_dwarf *dwarf, uint64_t vaddr,
                            struct hx_code_scope *scopes, size_t max)
{
    uint32_t node;
    hx_code_dwarf_begin(dwarf);
    struct unit *unit = find_unit(dwarf, vaddr, &node);
    if (!unit) {
        hx_code_dwarf_end(dwarf);
        return 0;
    }
    struct hx_code_scope here = {.dir = string_of(&unit->skeleton, DW_AT_comp_dir),
                                 .entry = UINT64_MAX};
    find_line(dwarf, unit, vaddr, &here.source, &here.line);
    size_t n = node == NODE_NONE ? 0 : put_scopes(dwarf, unit, node, scopes, max, &here);
    hx_code_dwarf_end(dwarf);
    if (n)
        return n;
    scopes[0] = here;
    return 1;
}

size_t hx_code_dwarf_functions(struct hx_code_dwarf *dwarf, uint64_t vaddr, Dwarf_Die *ret,
                               size_t max)
{
    uint32_t node;
    size_t n = 0;
    hx_code_dwarf_begin(dwarf);
    struct unit *unit = find_unit(dwarf, vaddr, &node);
    for (; unit && node != NODE_NONE; node = unit->nodes.v[node].parent)
        if (!dwarf_offdie(dwarf_cu_getdwarf(unit->die.cu), unit->nodes.v[node].die,
                          &ret[n < max ? n++ : max - 1]))
            break;
    hx_code_dwarf_end(dwarf);
    return node == NODE_NONE ? n : 0;
}

void hx_code_dwarf_put_spaces(struct hx_code_dwarf *dwarf, uint64_t vaddr, Dwarf_Die *die,
                              struct hx_text *to)
{
    Dwarf_Die space[HX_CODE_WITHIN_MAX];
    size_t n = 0;
    const struct range *in_unit = find_range(dwarf->ranges.v, dwarf->ranges.n, vaddr);
    const struct unit *unit = in_unit ? &dwarf->units.v[in_unit->node] : NULL;
    if (!unit || die->cu != unit->die.cu)
        return;
    uint32_t at = find_space(unit, dwarf_dieoffset(die));
    for (; at != NODE_NONE && n < HX_CODE_WITHIN_MAX; at = unit->spaces.v[at].parent)
        if (dwarf_offdie(dwarf_cu_getdwarf(unit->die.cu), unit->spaces.v[at].die, &space[n]))
            n++;
    while (n-- > 0) {
        const char *name = inherited_string(&space[n], DW_AT_name);
        hx_text_puts(to, name ? name : "(anonymous namespace)");
        hx_text_puts(to, "::");
    }
}

const char *hx_code_dwarf_keep(struct hx_code_dwarf *dwarf, const char *s)
{
    return hx_code_store_string(&dwarf->kept, s, strlen(s));
}
