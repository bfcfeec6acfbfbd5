/* code_once.c - code that runs once for a whole file, whoever comes first: found by structure.
 *
 * Three kinds. What the loader calls, with what these functions go on to by a jump and nobody else
 * leads to (parts that the compiler moved away, and calls at their end). The code between
 * __cxa_guard_acquire() and __cxa_guard_release(): what flows from the one, when it says yes, and
 * arrives at the other. And calls of what came as an argument in pthread_once(), and in the loops
 * of the C library over what is to be initialised.
 */
#include "sym/code/code_flow.h"
#include "sym/code/code_private.h"

#include "base/cleanup.h"
#include "base/lower_bound.h"
#include "base/timing.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TARGETS_MAX    4096  /* stubs and functions with a meaning here */
#define CANDIDATES_MAX 256   /* what initialisers go on to */
#define REFERENCES_MAX 8192  /* to these */
#define ENTRIES_MAX    65536 /* initialisers */
#define ACQUIRES_MAX   262144
#define LISTEN_GAP     65536 /* bytes of code between two looks whether to end */
#define TEST_MAX       12    /* instructions between a call and the branch by its result */
#define CALLEES_MAX    16
#define ENTRIES_NS     ((uint64_t)1000000000) /* for unwind tables that cannot be searched */

enum meaning { MEANS_NOTHING, MEANS_ACQUIRE, MEANS_DONE, MEANS_NO_RETURN };

static const struct name {
    const char *name;
    enum meaning meaning;
} names[] = {
    {"__cxa_guard_acquire", MEANS_ACQUIRE},
    {"__cxa_guard_release", MEANS_DONE},
    {"__cxa_guard_abort", MEANS_DONE},
    {"__cxa_throw", MEANS_NO_RETURN},
    {"__cxa_rethrow", MEANS_NO_RETURN},
    {"__cxa_bad_cast", MEANS_NO_RETURN},
    {"__cxa_throw_bad_array_new_length", MEANS_NO_RETURN},
    {"_Unwind_Resume", MEANS_NO_RETURN},
    {"_ZSt9terminatev", MEANS_NO_RETURN},
    {"__stack_chk_fail", MEANS_NO_RETURN},
    {"__assert_fail", MEANS_NO_RETURN},
    {"abort", MEANS_NO_RETURN},
    {"exit", MEANS_NO_RETURN},
    {"_exit", MEANS_NO_RETURN},
};
#define NAMES (sizeof names / sizeof *names)

/* An address that has a meaning when it is called or jumped to, or a word when what it holds is. */
struct target {
    uint64_t address;
    enum meaning meaning;
};

/* A piece of code that initialisers lead to. */
struct piece {
    uint64_t entry, start, end;
    bool others; /* something else leads there, too */
};

struct reference {
    uint64_t from;
    size_t to; /* in pieces */
};

struct maker {
    struct hx_code_file *file;
    struct hx_reading *reading;
    int fd;
    struct hx_cfi cfi;
    bool has_cfi, guarded;
    uint64_t deadline_ns; /* for what unwind tables say of initialisers */
    struct hx_code_flow flow;
    struct hx_code_inits inits;
    HX_VEC(struct target) targets, words; /* by address */
    HX_VEC(struct piece) pieces;          /* initialisers by start, then candidates */
    size_t n_sure;
    HX_VEC(struct reference) references;
    HX_VEC(struct hx_code_once_range) found;
};

/* --- what calls mean --------------------------------------------------------- */

static enum meaning meaning_of_name(const char *name)
{
    for (size_t i = 0; i < NAMES; i++)
        if (strcmp(names[i].name, name) == 0)
            return names[i].meaning;
    bool throws = strncmp(name, "_ZSt", 4) == 0 && strstr(name, "__throw_");
    return throws ? MEANS_NO_RETURN : MEANS_NOTHING;
}

static void take_stub(void *context, uint64_t vaddr, uint64_t size, const char *name)
{
    struct maker *maker = context;
    (void)size;
    enum meaning meaning = meaning_of_name(name);
    if (meaning && maker->targets.n < TARGETS_MAX)
        (void)hx_vec_push(&maker->targets, (struct target){vaddr, meaning});
}

static void take_word(void *context, uint64_t vaddr, uint64_t size, const char *name)
{
    struct maker *maker = context;
    (void)size;
    enum meaning meaning = meaning_of_name(name);
    if (meaning && maker->words.n < TARGETS_MAX)
        (void)hx_vec_push(&maker->words, (struct target){vaddr, meaning});
}

static int compare_target_addresses(const void *a, const void *b)
{
    const struct target *x = a, *y = b;
    return x->address < y->address ? -1 : x->address > y->address;
}

static void find_targets(struct maker *maker)
{
    hx_code_each_stub(maker->fd, take_stub, maker);
    hx_code_each_slot(maker->fd, take_word, maker);
    for (size_t i = 0; i < NAMES; i++) {
        const struct hx_code_function *function =
            hx_code_symbols_named(&maker->file->symbols, names[i].name);
        if (function)
            (void)hx_vec_push(&maker->targets, (struct target){function->vaddr, names[i].meaning});
    }
    if (maker->targets.n)
        qsort(maker->targets.v, maker->targets.n, sizeof *maker->targets.v,
              compare_target_addresses);
    if (maker->words.n)
        qsort(maker->words.v, maker->words.n, sizeof *maker->words.v, compare_target_addresses);
    for (size_t i = 0; i < maker->targets.n; i++)
        maker->guarded |= maker->targets.v[i].meaning == MEANS_ACQUIRE;
    for (size_t i = 0; i < maker->words.n; i++)
        maker->guarded |= maker->words.v[i].meaning == MEANS_ACQUIRE;
}

static enum meaning look_up_target(const struct target *v, size_t n, uint64_t address)
{
    const struct target key = {.address = address};
    const struct target *found =
        n ? bsearch(&key, v, n, sizeof key, compare_target_addresses) : NULL;
    return found ? found->meaning : MEANS_NOTHING;
}

static enum meaning meaning_of(const struct maker *maker, const struct hx_insn *insn)
{
    switch (insn->kind) {
    case HX_INSN_CALL:
    case HX_INSN_JUMP:
    case HX_INSN_BRANCH:
        return look_up_target(maker->targets.v, maker->targets.n, insn->target);
    case HX_INSN_CALL_WORD:
    case HX_INSN_JUMP_WORD:
        return look_up_target(maker->words.v, maker->words.n, insn->target);
    default:
        return MEANS_NOTHING;
    }
}

static void put_once_range(struct maker *maker, uint64_t start, uint64_t end, uint64_t site,
                           enum hx_code_once kind)
{
    if (end > start)
        (void)hx_vec_push(&maker->found,
                          (struct hx_code_once_range){start, end, site, (uint8_t)kind});
}

/* --- static variables of functions ------------------------------------------- */

/* The branch by what a call returned, behind it: where it goes on with 0, and else. */
static bool find_branch(const struct maker *maker, uint64_t at, uint64_t *ret_zero,
                        uint64_t *ret_else)
{
    struct hx_insn insn;
    bool inverted = false;
    for (int i = 0; i < TEST_MAX && hx_code_flow_insn(&maker->flow, at, &insn); i++) {
        at += insn.length;
        uint8_t condition = insn.opcode & 15;
        if (insn.kind == HX_INSN_BRANCH) {
            bool zero = (condition == 4) != inverted;
            *ret_zero = zero ? insn.target : at;
            *ret_else = zero ? at : insn.target;
            return condition == 4 || condition == 5;
        }
        if (insn.kind == HX_INSN_JUMP)
            at = insn.target;
        else if (insn.kind != HX_INSN_OTHER)
            return false;
        else if (insn.two && insn.opcode == 0x94) /* sete */
            inverted = !inverted;
    }
    return false;
}

static enum hx_code_turn visit_guarded(void *context, uint64_t at, const struct hx_insn *insn,
                                       uint64_t *to)
{
    const struct maker *maker = context;
    uint64_t other;
    switch (meaning_of(maker, insn)) {
    case MEANS_DONE:
    case MEANS_NO_RETURN:
        return HX_CODE_ARRIVE;
    case MEANS_ACQUIRE: /* of another variable inside: that has a walk of its own */
        return find_branch(maker, at + insn->length, to, &other) ? HX_CODE_GO_TO : HX_CODE_GO_ON;
    default:
        return HX_CODE_GO_ON;
    }
}

static void add_guarded(struct maker *maker, uint64_t call, uint64_t behind)
{
    uint64_t zero, from = behind;
    (void)(find_branch(maker, behind, &zero, &from));
    hx_code_flow_walk(&maker->flow, from, visit_guarded, maker);
    hx_code_flow_arrivals(&maker->flow);
    for (size_t i = 0; i < maker->flow.runs.n; i++)
        if (maker->flow.runs.v[i].arrives)
            put_once_range(maker, maker->flow.runs.v[i].start, maker->flow.runs.v[i].end, call,
                           HX_CODE_ONCE);
}

/* All calls of __cxa_guard_acquire(), by how they are written: code is not read in order. */
static void find_guarded(struct maker *maker)
{
    size_t n = 0;
    for (size_t k = 0; k < maker->flow.parts.n; k++) {
        const struct hx_code_part part = maker->flow.parts.v[k];
        for (size_t i = 0; i + 6 <= part.n && n < ACQUIRES_MAX; i++) {
            if (i % LISTEN_GAP == 0 && hx_reading_ended(maker->reading))
                return;
            bool word = part.bytes[i] == 0xff && part.bytes[i + 1] == 0x15;
            int32_t distance;
            if (!word && part.bytes[i] != 0xe8)
                continue;
            size_t length = word ? 6 : 5;
            memcpy(&distance, part.bytes + i + length - 4, sizeof distance);
            uint64_t call = part.start + i, behind = call + length;
            uint64_t to = behind + (uint64_t)(int64_t)distance;
            if (look_up_target(word ? maker->words.v : maker->targets.v,
                               word ? maker->words.n : maker->targets.n, to) == MEANS_ACQUIRE) {
                add_guarded(maker, call, behind);
                n++;
            }
        }
    }
}

/* --- what the loader calls --------------------------------------------------- */

static struct piece function_piece_at(const struct maker *maker, uint64_t entry)
{
    struct piece piece = {.entry = entry, .start = entry, .end = entry + 1};
    const struct hx_code_symbol *symbol = hx_code_symbols_find(&maker->file->symbols, entry);
    if (maker->has_cfi && hx_now_ns() < maker->deadline_ns &&
        hx_cfi_function(&maker->cfi, entry, &piece.start, &piece.end))
        return piece;
    if (symbol) {
        piece.start = symbol->start;
        piece.end = symbol->end;
    }
    return piece;
}

static int by_piece(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

static bool in_initialiser(const struct maker *maker, uint64_t vaddr)
{
    size_t low = HX_LOWER_BOUND(maker->n_sure, i, maker->pieces.v[i].start <= vaddr);
    return low && vaddr < maker->pieces.v[low - 1].end;
}

static void add_candidate(struct maker *maker, uint64_t entry)
{
    size_t n;
    if (in_initialiser(maker, entry) || maker->pieces.n - maker->n_sure >= CANDIDATES_MAX ||
        !hx_code_flow_bytes(&maker->flow, entry, &n))
        return;
    for (size_t i = maker->n_sure; i < maker->pieces.n; i++)
        if (maker->pieces.v[i].entry == entry)
            return;
    (void)hx_vec_push(&maker->pieces, function_piece_at(maker, entry));
}

struct piece_walk {
    struct maker *maker;
    struct piece piece;
};

static enum hx_code_turn visit_piece(void *context, uint64_t at, const struct hx_insn *insn,
                                     uint64_t *to)
{
    const struct piece_walk *walk = context;
    const struct piece *piece = &walk->piece;
    bool leaves = insn->target < piece->start || insn->target >= piece->end;
    enum meaning meaning = meaning_of(walk->maker, insn);
    if (at < piece->start || at >= piece->end)
        return HX_CODE_STOP;
    if ((insn->kind != HX_INSN_JUMP && insn->kind != HX_INSN_BRANCH) || !leaves)
        return meaning == MEANS_NO_RETURN ? HX_CODE_STOP : HX_CODE_GO_ON;
    if (!meaning)
        add_candidate(walk->maker, insn->target);
    *to = at + insn->length;
    return insn->kind == HX_INSN_JUMP ? HX_CODE_STOP : HX_CODE_GO_TO;
}

static void find_pieces(struct maker *maker)
{
    hx_code_inits_find(maker->file, maker->fd, &maker->inits);
    for (size_t i = 0; i < maker->inits.entries.n && i < ENTRIES_MAX; i++) {
        size_t n;
        if (hx_code_flow_bytes(&maker->flow, maker->inits.entries.v[i], &n))
            (void)hx_vec_push(&maker->pieces, function_piece_at(maker, maker->inits.entries.v[i]));
    }
    if (maker->pieces.n)
        qsort(maker->pieces.v, maker->pieces.n, sizeof *maker->pieces.v, by_piece);
    maker->n_sure = maker->pieces.n;
    for (size_t i = 0; i < maker->pieces.n; i++) {
        struct piece_walk walk = {maker, maker->pieces.v[i]};
        hx_code_flow_walk(&maker->flow, walk.piece.entry, visit_piece, &walk);
    }
}

static int compare_piece_entries(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    return x->entry < y->entry ? -1 : x->entry > y->entry;
}

/* The candidate that begins at an address; they are in order now. */
static bool find_candidate(const struct maker *maker, uint64_t entry, size_t *ret)
{
    const struct piece key = {.entry = entry}, *first = maker->pieces.v + maker->n_sure;
    const struct piece *found =
        bsearch(&key, first, maker->pieces.n - maker->n_sure, sizeof key, compare_piece_entries);
    *ret = found ? (size_t)(found - maker->pieces.v) : 0;
    return found;
}

static void add_reference(struct maker *maker, uint64_t from, size_t piece)
{
    if (maker->references.n >= REFERENCES_MAX ||
        !hx_vec_push(&maker->references, (struct reference){from, piece}))
        maker->pieces.v[piece].others = true;
}

#define FILTER_BITS 65536

/* Notes whatever in the code could lead to a candidate: any four bytes that are the distance to
 * one, and at fixed addresses its address. */
static void find_references(struct maker *maker)
{
    HX_FREE uint8_t *filter = calloc(1, FILTER_BITS / 8);
    bool fixed = maker->file->file.layout.fixed;
    for (size_t i = maker->n_sure; filter && i < maker->pieces.n; i++) {
        uint64_t low = maker->pieces.v[i].entry % FILTER_BITS;
        filter[low / 8] |= (uint8_t)(1u << low % 8);
    }
    for (size_t k = 0; filter && k < maker->flow.parts.n; k++) {
        const struct hx_code_part *part = &maker->flow.parts.v[k];
        for (size_t i = 0; i + 4 <= part->n; i++) {
            int32_t distance;
            memcpy(&distance, part->bytes + i, sizeof distance);
            uint64_t from = part->start + i, to = from + 4 + (uint64_t)(int64_t)distance;
            uint64_t number = (uint32_t)distance;
            size_t piece;
            if ((filter[to % FILTER_BITS / 8] & 1u << to % 8 &&
                 find_candidate(maker, to, &piece)) ||
                (fixed && filter[number % FILTER_BITS / 8] & 1u << number % 8 &&
                 find_candidate(maker, number, &piece)))
                add_reference(maker, from, piece);
        }
    }
}

/* The same for short jumps. */
static void find_short_references(struct maker *maker, size_t piece)
{
    uint64_t to = maker->pieces.v[piece].entry;
    for (uint64_t from = to - 129; from != to + 127; from++) {
        size_t n;
        const uint8_t *bytes = hx_code_flow_bytes(&maker->flow, from, &n);
        if (!bytes || n < 2 || from + 2 + (uint64_t)(int64_t)(int8_t)bytes[1] != to)
            continue;
        if (bytes[0] == 0xeb || (bytes[0] & 0xf0) == 0x70)
            add_reference(maker, from, piece);
    }
}

static bool take_exported(void *context, const struct hx_elf_symbol *symbol)
{
    struct maker *maker = context;
    size_t piece;
    if (symbol->bind != STB_LOCAL && find_candidate(maker, symbol->value, &piece))
        maker->pieces.v[piece].others = true;
    return true;
}

/* Data and other files that could know a candidate. */
static void find_outside(struct maker *maker)
{
    size_t piece;
    hx_error_free(hx_elf_each_symbol(maker->fd, maker->reading, SHT_DYNSYM, take_exported, maker));
    for (size_t i = 0; i < maker->inits.n_relocations; i++)
        if (ELF64_R_TYPE(maker->inits.relocations[i].r_info) == R_X86_64_RELATIVE &&
            find_candidate(maker, (uint64_t)maker->inits.relocations[i].r_addend, &piece))
            maker->pieces.v[piece].others = true;
}

static bool is_from_initialiser(const struct maker *maker, uint64_t from)
{
    if (in_initialiser(maker, from))
        return true;
    for (size_t i = maker->n_sure; i < maker->pieces.n; i++)
        if (!maker->pieces.v[i].others && from >= maker->pieces.v[i].start &&
            from < maker->pieces.v[i].end)
            return true;
    return false;
}

/* Leaves of the candidates those that nothing but initialisers, and such candidates, leads to. */
static void drop_shared(struct maker *maker)
{
    qsort(maker->pieces.v + maker->n_sure, maker->pieces.n - maker->n_sure, sizeof *maker->pieces.v,
          compare_piece_entries);
    find_references(maker);
    for (size_t i = maker->n_sure; i < maker->pieces.n; i++)
        find_short_references(maker, i);
    find_outside(maker);
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < maker->references.n; i++) {
            struct piece *piece = &maker->pieces.v[maker->references.v[i].to];
            if (!piece->others && !is_from_initialiser(maker, maker->references.v[i].from))
                more = piece->others = true;
        }
    }
}

static void find_initialisers(struct maker *maker)
{
    find_pieces(maker);
    if (maker->pieces.n > maker->n_sure)
        drop_shared(maker);
    for (size_t i = 0; i < maker->pieces.n; i++)
        if (!maker->pieces.v[i].others)
            put_once_range(maker, maker->pieces.v[i].start, maker->pieces.v[i].end, 0,
                           HX_CODE_ONCE);
}

/* --- what calls them --------------------------------------------------------- */

struct call_walk {
    const struct maker *maker;
    HX_VEC(uint64_t) calls;   /* of what is known at run time only */
    HX_VEC(uint64_t) callees; /* known ones, by how they were come upon */
    uint64_t wanted;          /* an instruction; whether it was come upon */
    bool found;
};

static enum hx_code_turn visit_calls(void *context, uint64_t at, const struct hx_insn *insn,
                                     uint64_t *to)
{
    struct call_walk *walk = context;
    (void)to;
    walk->found |= at == walk->wanted;
    if (insn->kind == HX_INSN_CALL_REGISTER)
        (void)hx_vec_push(&walk->calls, at);
    else if (insn->kind == HX_INSN_CALL && walk->callees.n < CALLEES_MAX)
        (void)hx_vec_push(&walk->callees, insn->target);
    return meaning_of(walk->maker, insn) == MEANS_NO_RETURN ? HX_CODE_STOP : HX_CODE_GO_ON;
}

static void end_walk(struct call_walk *walk)
{
    hx_vec_free(&walk->calls);
    hx_vec_free(&walk->callees);
}

/* Does the flow come back to a call, whose target lies in an array that something points into? */
static bool is_loop_call(struct maker *maker, uint64_t at)
{
    struct hx_insn insn;
    struct call_walk walk = {.maker = maker, .wanted = at};
    if (!hx_code_flow_insn(&maker->flow, at, &insn) || insn.modrm >> 6 == 3)
        return false;
    bool stack = (insn.modrm & 7) == 4 && (insn.sib & 7) == 4; /* main is called so */
    if (!stack)
        hx_code_flow_walk(&maker->flow, at + insn.length, visit_calls, &walk);
    end_walk(&walk);
    return walk.found;
}

/* Notes the calls of a function, or when it has none of what it calls; false: there are none. */
static bool add_calls(struct maker *maker, uint64_t function, bool loops, bool deeper)
{
    struct call_walk walk = {.maker = maker, .wanted = UINT64_MAX};
    bool any = false;
    hx_code_flow_walk(&maker->flow, function, visit_calls, &walk);
    for (size_t i = 0; i < walk.calls.n; i++) {
        struct hx_insn insn;
        uint64_t at = walk.calls.v[i];
        if ((loops && !is_loop_call(maker, at)) || !hx_code_flow_insn(&maker->flow, at, &insn))
            continue;
        put_once_range(maker, at, at + insn.length, 0, HX_CODE_CALLS_ONCE);
        any = true;
    }
    for (size_t i = 0; i < walk.callees.n && !any && deeper; i++)
        (void)add_calls(maker, walk.callees.v[i], loops, false);
    end_walk(&walk);
    return any;
}

/* The loader begins, calls a function that loads everything, then one that initialises it. */
static void find_loader(struct maker *maker)
{
    const struct hx_code_symbols *symbols = &maker->file->symbols;
    struct call_walk walk = {.maker = maker, .wanted = UINT64_MAX};
    if (!maker->file->entry || !hx_code_symbols_named(symbols, "__tls_get_addr") ||
        !hx_code_symbols_named(symbols, "_dl_mcount"))
        return;
    hx_code_flow_walk(&maker->flow, maker->file->entry, visit_calls, &walk);
    if (walk.callees.n == 2)
        (void)add_calls(maker, walk.callees.v[1], true, true);
    end_walk(&walk);
}

static void find_callers(struct maker *maker)
{
    static const struct {
        const char *name;
        bool loops, deeper;
    } callers[] = {
        {"pthread_once", false, true},
        {"_ZNSt3__111__call_onceERVmPvPFvS2_E", false, false}, /* of the other C++ library */
        {"_ZNSt3__111__call_onceERVmPvPFvPvE", false, false},
        {"__libc_start_main", true, false},
        {"__libc_csu_init", true, false},
    };
    for (size_t i = 0; i < sizeof callers / sizeof *callers; i++) {
        const struct hx_code_function *function =
            hx_code_symbols_named(&maker->file->symbols, callers[i].name);
        if (function)
            (void)add_calls(maker, function->vaddr, callers[i].loops, callers[i].deeper);
    }
    find_loader(maker);
}

/* --- all together ------------------------------------------------------------ */

static int compare_once_ranges(const void *a, const void *b)
{
    const struct hx_code_once_range *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->end > y->end ? -1 : x->end < y->end;
}

/* Sorts what was found, takes it apart, and puts together what is the same. */
static void merge_once_ranges(struct maker *maker)
{
    struct hx_code_once_range *v = maker->found.v;
    size_t n = 0;
    if (maker->found.n)
        qsort(v, maker->found.n, sizeof *v, compare_once_ranges);
    for (size_t i = 0; i < maker->found.n; i++) {
        struct hx_code_once_range range = v[i];
        struct hx_code_once_range *last = n ? &v[n - 1] : NULL;
        if (last && range.start < last->end)
            range.start = last->end;
        if (range.start >= range.end)
            continue;
        if (last && last->end == range.start && last->site == range.site &&
            last->kind == range.kind)
            last->end = range.end;
        else
            v[n++] = range;
    }
    maker->found.n = n;
}

/* With the lock of names. */
static void make_once_ranges(hx_code *code, struct hx_code_file *file)
{
    struct maker maker = {
        .file = file, .reading = &code->reading, .deadline_ns = hx_now_ns() + ENTRIES_NS};
    bool opened;
    if (!hx_code_load_symbols(code, file))
        return;
    file->once_tried = true;
    if (!file->sound)
        return;
    maker.has_cfi = hx_code_file_cfi(file, &maker.cfi);
    pthread_mutex_lock(&file->lock);
    maker.fd = hx_code_file_fd(file, &opened);
    pthread_mutex_unlock(&file->lock);
    if (maker.fd >= 0 && hx_code_flow_open(file, maker.reading, maker.fd, &maker.flow)) {
        find_targets(&maker);
        find_initialisers(&maker);
        if (maker.guarded)
            find_guarded(&maker);
        find_callers(&maker);
        merge_once_ranges(&maker);
        if (hx_reading_ended(maker.reading)) {
            file->once_tried = false;
            hx_vec_free(&maker.found);
        }
        file->once.v = maker.found.v;
        file->once.n = maker.found.n;
        file->once.cap = maker.found.cap;
    }
    hx_code_flow_close(&maker.flow);
    hx_code_inits_free(&maker.inits);
    hx_vec_free(&maker.targets);
    hx_vec_free(&maker.words);
    hx_vec_free(&maker.pieces);
    hx_vec_free(&maker.references);
    if (opened)
        close(maker.fd);
}

/* With the lock of names. NULL: the code there runs whenever it is called. */
static const struct hx_code_once_range *find_once(hx_code *code, uint32_t i, uint64_t vaddr)
{
    struct hx_code_file *file = hx_code_file_at(code, i);
    if (!file->once_tried)
        make_once_ranges(code, file);
    size_t low = HX_LOWER_BOUND(file->once.n, at, file->once.v[at].end <= vaddr);
    return low < file->once.n && file->once.v[low].start <= vaddr ? &file->once.v[low] : NULL;
}

enum hx_code_once hx_code_once(hx_code *code, uint32_t file, uint64_t vaddr, uint64_t *ret_site)
{
    *ret_site = 0;
    if (file >= hx_code_count(code))
        return HX_CODE_NOT_ONCE;
    pthread_mutex_lock(&code->names);
    const struct hx_code_once_range *found = find_once(code, file, vaddr);
    enum hx_code_once kind = found ? found->kind : HX_CODE_NOT_ONCE;
    if (found)
        *ret_site = found->site;
    pthread_mutex_unlock(&code->names);
    return kind;
}
