/* snapshot.h - one snapshot of a target in memory.
 *
 * Filled in steps, each by one layer: attach (process, image, heap segments,
 * objects, root regions, account), traverse (edges, root edges, states), store
 * (writes it, or fills one from a file, then without an image).
 */
#ifndef HX_MODEL_SNAPSHOT_H
#define HX_MODEL_SNAPSHOT_H

#include "base/text.h"
#include "base/vec.h"
#include "model/graph.h"
#include "model/image.h"
#include "model/process.h"
#include "model/recording.h"

enum hx_root_kind {
    HX_ROOT_GLOBAL = 0,
    HX_ROOT_STACK,
    HX_ROOT_FRAME,
    HX_ROOT_REGISTER,
    HX_ROOT_TLS,
    HX_ROOT_MAPPING,
    HX_ROOT_NAMED,
};
const char *hx_root_kind_name(enum hx_root_kind kind); /* "global", ... */

/* What is known of all words of a root. */
enum hx_root_words {
    HX_WORDS_ANY,
    HX_WORDS_IN_USE, /* each is what the program works with, none is an old one */
    HX_WORDS_WEAK,   /* they keep nothing alive */
};

/* A named place outside the heap: [address, address + size) of the target, every
 * aligned word of which is scanned. A register has address 0, size 8 and its word
 * in `value`. Roots are sorted by (address, order of making); the address ranges
 * of roots do not overlap each other or a heap segment; named ones may overlap anything, and
 * thread-local variables can lie in an object, whose words they take. Roots without a root edge may
 * be dropped by hx_scan(); stacks stay. */
struct hx_root {
    enum hx_root_kind kind;
    char *name;   /* "app::cache", "stack of thread 12", "libc.so.6+0x1d2c80"; owned */
    char *symbol; /* the linker's name ("_ZN3app5cacheE"); NULL: it has none; owned */
    char *module; /* file name of the ELF object, "" when none; owned */
    char *near;   /* "stdin+0x60": by a symbol that may have nothing to do with it, where its own
                     may be missing; NULL: not needed, or there is none; owned */
    uint64_t address, size;
    uint64_t value;          /* registers only */
    pid_t tid;               /* stack, register, tls: whose; else 0 */
    char *thread;            /* that thread's name; NULL: it has none that is known; owned */
    bool cluster;            /* nameless: hx_scan() splits it at gaps without pointers, see there */
    bool rest;               /* of a stack that frames were cut out of: dropped without edges */
    uint64_t bias;           /* cluster: module load bias, so that a part is named module+offset */
    uint64_t direct_objects; /* distinct objects that its edges point to */
    char *type_spelling;     /* of a variable's type, as hx_type_table_find() wants it; NULL: not
                                known so; not stored; owned */
    enum hx_root_words words; /* not stored: its edges' evidence is */
    uint32_t layout;          /* index in layouts + 1; 0: not known */
    uint64_t layout_at;       /* where the typed variable begins in it, in bytes */
};

void hx_root_deinit(struct hx_root *root);

/* Has it an address and a size? A register has none, and a named one only when it is one place. */
static inline bool hx_root_has_place(const struct hx_root *root)
{
    return root->kind != HX_ROOT_REGISTER && (root->kind != HX_ROOT_NAMED || root->size != 0);
}

/* Does it hold what a thread works with, so that old words stand beside those in use? */
static inline bool hx_root_is_scratch(const struct hx_root *root)
{
    return root->kind == HX_ROOT_REGISTER || root->kind == HX_ROOT_STACK ||
           root->kind == HX_ROOT_FRAME;
}

/* How much of a frame's name is its function: "f: local", "f +0x10". */
size_t hx_root_function_length(const struct hx_root *root);

/* Is it a stretch of a module's data that has no symbol, as hx_scan() names one (module+0xOFFSET)?
 * Several variables may lie in it. */
bool hx_root_is_nameless(const struct hx_root *root);

/* A file whose variables have no names, as stripped ones are. */
struct hx_bare_module {
    char *module, *path; /* owned */
    char *build_id;      /* NULL: it has none; owned */
};

/* What lets the files of a program be asked for names later (heapx symbolize): where they lay. */
struct hx_loaded_file {
    char *path;     /* owned */
    char *build_id; /* NULL: it has none; owned */
    uint64_t bias;  /* address less p_vaddr */
    uint32_t code;  /* number in the set of files that is open (sym/code); UINT32_MAX: in none */
};
#define HX_LOADED_FILES_MAX ((size_t)1 << 16)

/* What a register had when a frame was left: HX_KEPT_NOT: nobody knows, HX_KEPT_HELD: the thread
 * has it still; else it was saved at that address. */
enum { HX_KEPT_NOT = 0, HX_KEPT_HELD = 1 };
enum { HX_KEPT_REGISTERS = 6 }; /* rbx, rbp, r12 to r15 (enum in sym/cfi.h) */

/* A frame at the stop; vaddr: the code that it was left at. Invariant: sp < cfa. */
struct hx_stopped_frame {
    pid_t tid;
    uint32_t position; /* in its thread, innermost 0 */
    uint32_t file;     /* in `loaded` */
    uint64_t vaddr, sp, cfa, fp;
    bool fp_known;
    uint64_t kept[HX_KEPT_REGISTERS];
};
#define HX_STOPPED_FRAMES_MAX ((size_t)1 << 16)

/* Where a thread keeps the variables of a file that have no names yet. */
struct hx_tls_block {
    uint64_t start, end;
    uint32_t file; /* in `loaded` */
    pid_t tid;
};
#define HX_TLS_BLOCKS_MAX ((size_t)1 << 16)

struct hx_root_edge {
    uint32_t root; /* index in roots */
    hx_obj target;
    uint64_t address; /* of the word; 0 for a register */
    uint8_t kind;     /* enum hx_edge_kind */
    hx_evidence evidence;
};

/* A root that the user or the program has named. Named roots decide bins only. */
struct hx_named {
    char *name; /* owned; no two are the same */
    char *expr; /* what was asked for ("module:libc.so.6"); NULL: the program's own array; owned */
    uint32_t root; /* index in roots: whose edges count. Either a root that is there anyway or one
                      of kind HX_ROOT_NAMED; those stand behind all others */
};

/* What a type says of the words of its blocks: a bit for each of the first 64. */
struct hx_type_words {
    uint64_t weak;                  /* leads to what it does not keep alive */
    uint64_t scalar;                /* is no pointer */
    uint64_t pointer;               /* is one */
    bool rest_scalar, rest_pointer; /* the others */
};

/* Invariant: no two types of a snapshot have the same name. */
struct hx_type {
    char *name;                    /* as a programmer writes it, not escaped; owned */
    enum hx_confidence confidence; /* certain: of all; guess: of more than a tenth */
    uint8_t sources; /* bit for each enum hx_type_source of its objects; 0: not known */
    char *symbol;    /* of its type information ("_ZTI4Node"); NULL: none, or several; owned */
    uint32_t layout; /* index in layouts + 1; 0: not known */
    struct hx_type_words words; /* not stored */
};

/* What said so of a type's objects, joined by '+': "vtable+pointer"; NULL: not known. Returns buf.
 */
#define HX_SOURCES 64
const char *hx_type_sources(const struct hx_type *type, char buf[HX_SOURCES]);

/* The fields of a type that words which point to objects lie in. */
struct hx_field {
    uint64_t offset; /* in bytes, less than the layout's size where it repeats */
    char *name;      /* a path: "next", "slots[2].key"; owned */
    char *target;    /* the type that it says its target has; NULL: it says nothing; owned */
};
struct hx_layout {
    uint64_t size;                  /* of one element */
    bool repeats;                   /* an array of so large elements */
    bool alike;                     /* its elements are called alike: no number stands before */
    HX_VEC(struct hx_field) fields; /* by offset */
};
void hx_layout_deinit(struct hx_layout *layout);

/* Memory outside the heap of a known type: a variable. */
struct hx_typed_place {
    uint64_t address, size; /* address 0: in a register */
    uint32_t root;          /* of a register: in roots */
    uint32_t type;          /* in a table (type_table.h) */
};

/* Blocks of one size class whose words look alike. Invariant: no two of a snapshot have the same
 * label. */
struct hx_shape {
    char *label; /* "48 bytes: {-> self, -> text, int}"; owned */
};

/* Where objects were allocated. */
struct hx_site {
    char *label;       /* owned; no two are the same */
    uint32_t stack;    /* index in recording.stacks, HX_SITE_BEFORE or HX_SITE_UNKNOWN; HX_NO_STACK:
                          of a recording that is not loaded */
    int64_t stack_id;  /* of the whole stack, its number in the store; 0: not stored yet */
    int64_t ccs_id;    /* of the cost-centre stack that it belongs to; 0: not stored yet */
    uint64_t identity; /* of the whole stack, the same in every store; 0: not known */
};

/* Address ranges [start, end). */
struct hx_range {
    uint64_t start, end;
};
typedef HX_VEC(struct hx_range) hx_ranges;
void hx_ranges_sort(hx_ranges *ranges); /* by start */

/* Memory that the allocator took from the system. Segments are sorted and do not
 * overlap; each byte of one is in an object, in a free range, or overhead. */
struct hx_segment {
    uint64_t start, end;
    uint32_t arena; /* number of the arena, HX_ARENA_MMAP for a block with a mapping of its own */
};
#define HX_ARENA_MMAP UINT32_MAX
typedef HX_VEC(struct hx_segment) hx_segments;
void hx_segments_sort(hx_segments *segments); /* by start */

/* What one allocator has of the heap; what all have adds up to the figures of the snapshot. */
struct hx_allocator_share {
    char *name;        /* "jemalloc"; owned */
    char *version;     /* "5.3.0"; NULL: not known; owned */
    char *module;      /* the file that its code is in; NULL: not known; not stored; owned */
    char *evidence;    /* how heapx knows; owned */
    bool proven;       /* false: it was recognised, and not walked: of the figures none is known */
    bool cache_known;  /* cached_bytes is */
    bool free_unknown; /* free_bytes and overhead_bytes are not, nor cached_bytes */
    uint64_t claimed_bytes; /* of memory that it has from the system */
    uint64_t walked_bytes;  /* of those, what it says of them is known */
    uint64_t bytes, objects, free_bytes, overhead_bytes;
    uint64_t cached_bytes; /* of free_bytes, those that caches of threads have */
};
void hx_allocator_share_deinit(struct hx_allocator_share *share);

enum hx_account_part {
    HX_PART_LIVE,
    HX_PART_FREE,
    HX_PART_OVERHEAD,
    HX_PART_FILES,
    HX_PART_STACKS,
    HX_PART_ANONYMOUS,
    HX_PART_SHARED,
    HX_PART_OTHER,
    HX_PARTS
};
const char *hx_part_name(enum hx_account_part part); /* "live", ... */

/* Something that was lost: view `losses`. */
struct hx_loss {
    char *what;
    uint64_t count, bytes;
    uint64_t address; /* 0 with has_address false: NULL in the view */
    bool has_bytes, has_address;
};

/* The note of one that is unnamed. */
#define HX_UNNAMED                                                                                 \
    "names and types of debug information are still to be read (heapx symbolize reads them, too)"

struct hx_early_columns;
struct hx_snapshot {
    /* who and when */
    int64_t taken_at_ns;   /* CLOCK_REALTIME at the stop */
    int64_t started_at_ns; /* when the process began, by the same clock; 0: not known */
    pid_t pid;
    char *comm, *exe;
    uint64_t pause_us;
    bool precopied;               /* most of it was copied beside the running target: */
    uint64_t prepare_us, held_us; /* before its stop; the longest hold of the mappings' lock */
    bool pause_unknown;           /* nobody stopped it for this snapshot */
    const char *method;           /* "copy", ...: a literal */
    char *allocator;              /* "glibc 2.36", "none found"; owned */
    bool complete;                /* false: partial, notes say what is missing */
    struct hx_text notes;         /* sentences joined by "; " */

    /* the process */
    struct hx_mapping *mapping;
    size_t n_mappings;
    struct hx_thread *thread;
    size_t n_threads;
    struct hx_image image;

    /* the heap */
    bool no_heap; /* no allocator was walked: its figures and parts of the account are unknown */
    hx_segments segments;
    HX_VEC(struct hx_allocator_share) allocators; /* in the order of the table of allocators */
    hx_ranges free_ranges; /* sorted; free, top and cached chunks with their headers */
    uint64_t heap_bytes, free_bytes, overhead_bytes;
    bool free_unknown; /* free_bytes and overhead_bytes were not measured */
    struct hx_graph graph;
    HX_VEC(struct hx_type) types;
    HX_VEC(struct hx_layout) layouts;
    HX_VEC(struct hx_shape) shapes;
    HX_VEC(struct hx_site) sites;
    struct hx_recording *recording;  /* NULL: none, or not loaded; owned */
    struct hx_recording *backtraces; /* stacks of the threads at the stop; NULL: not taken; owned */
    HX_VEC(uint32_t) thread_stack;   /* of each thread, in backtraces; HX_NO_STACK; or empty */
    bool unnamed;                    /* names and types of debug information were left to later */
    hx_ranges resident; /* whole pages of the segments that were in memory; sorted, apart */
    bool has_resident;

    /* roots */
    HX_VEC(struct hx_root) roots;
    HX_VEC(struct hx_root_edge) root_edges; /* sorted by root, then address */
    HX_VEC(struct hx_named) named;          /* in the order given */
    HX_VEC(struct hx_bare_module) bare;     /* no two of one name */
    HX_VEC(struct hx_loaded_file) loaded;   /* files with code, each once */
    HX_VEC(struct hx_stopped_frame) frames; /* by thread, then position */
    HX_VEC(struct hx_tls_block) tls_blocks; /* by address, apart */

    /* figures */
    bool has_account;
    uint64_t account[HX_PARTS];
    uint64_t rss_bytes;
    bool has_rss;
    uint64_t state_bytes[HX_STATES], state_objects[HX_STATES];
    enum hx_interior interior;
    HX_VEC(struct hx_loss) losses;

    struct hx_early_columns *early; /* store.h: of its blocks, encoded already; NULL: none */
    void (*drop_early)(struct hx_early_columns *early);
};

const struct hx_bare_module *hx_snapshot_bare(const struct hx_snapshot *snapshot,
                                              const char *module); /* NULL: it is none */

hx_error *hx_snapshot_create(struct hx_snapshot **ret);
void hx_snapshot_destroy(struct hx_snapshot *snapshot);

/* It is unnamed no longer. */
void hx_snapshot_named(struct hx_snapshot *snapshot);

/* Where the edges of root number `root` begin in root_edges, or would: those of the next one begin
 * where they end. Binary search. */
size_t hx_snapshot_root_edges(const struct hx_snapshot *snapshot, uint64_t root);

/* How many distinct objects edges lead to. `seen`: a bit for each object, all zero before and
 * after.
 */
uint64_t hx_root_edge_targets(const struct hx_root_edge *edge, size_t n, uint64_t *seen);

/* What objects are called: by their types, else by their shapes. Names are numbered from 0 to
 * hx_snapshot_names() - 1; that number itself: neither is known, NULL. */
size_t hx_snapshot_names(const struct hx_snapshot *snapshot);
const char *hx_snapshot_name(const struct hx_snapshot *snapshot, size_t number);
size_t hx_snapshot_number_of(const struct hx_snapshot *snapshot, hx_obj object);
const char *hx_snapshot_name_of(const struct hx_snapshot *snapshot, hx_obj object);
/* Appends that name; to a shape also who allocated it, where that is known: " from put". */
void hx_snapshot_put_name(const struct hx_snapshot *snapshot, hx_obj object, struct hx_text *text);
/* Appends " from put" alone. */
void hx_snapshot_put_maker(const struct hx_snapshot *snapshot, hx_obj object, struct hx_text *text);

/* Appends the field that the word at an offset of an object is, by its type: "next", "[3].key"; the
 * same of the word at an address of a root (of a register: 0). False: it is not known. */
bool hx_snapshot_put_field(const struct hx_snapshot *snapshot, hx_obj object, uint64_t offset,
                           struct hx_text *text);
bool hx_snapshot_put_root_field(const struct hx_snapshot *snapshot, uint32_t root, uint64_t address,
                                struct hx_text *text);

/* Appends a sentence to notes (printf); "partial" also clears `complete`. */
void hx_snapshot_note(struct hx_snapshot *snapshot, bool partial, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Counts a loss: adds to the row of the same `what` (and same address) or makes
 * one. bytes 0: not measured; address 0: none. Beyond HX_LOSSES_MAX rows the
 * address is dropped, so that their number has a bound. */
#define HX_LOSSES_MAX 1000
void hx_snapshot_lose(struct hx_snapshot *snapshot, const char *what, uint64_t count,
                      uint64_t bytes, uint64_t address);

/* The image is not needed after the scan: gives its memory back. */
void hx_snapshot_drop_image(struct hx_snapshot *snapshot);

static inline void hx_cleanup_snapshot(struct hx_snapshot **snapshot)
{
    hx_snapshot_destroy(*snapshot);
}
#define HX_SNAPSHOT __attribute__((cleanup(hx_cleanup_snapshot)))

#endif
