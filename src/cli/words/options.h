/* options.h - the options of all subcommands: one list, one parser.
 *
 * HX_OPTIONS is the list; the enum, the parser's table, `heapx help` and the hint after an
 * unknown option come from it. Adding one: a line here, a case in options.c, its bit in the
 * commands that take it (commands.h), a paragraph in the manual.
 */
#ifndef HX_CLI_WORDS_OPTIONS_H
#define HX_CLI_WORDS_OPTIONS_H

#include "attach/attach.h"
#include "base/error.h"
#include "model/graph.h"
#include "record/record.h"
#include "store/cost/attribution.h"
#include "store/query.h"

/* id, name, short letter or 0, argument (NULL: none), what it does */
#define HX_OPTIONS(X)                                                                              \
    X(OUT, "out", 'o', "FILE", "the store to append to, made when absent; export: the file")       \
    X(EVERY, "every", 0, "DUR", "a snapshot every DUR: 500ms, 10s, 5m, 1h")                        \
    X(COUNT, "count", 0, "N", "end after N snapshots (without --every: one a second)")             \
    X(DURATION, "duration", 0, "DUR", "end after DUR (without --every: one a second)")             \
    X(SNAPSHOT, "snapshot", 0, "N|first|last|all",                                                 \
      "which snapshot; last by default (analyse, symbolize, series of export: all)")               \
    X(SORT, "sort", 0, "COL[:asc|:desc]",                                                          \
      "by a column; figures largest first, names and addresses upwards")                           \
    X(WHERE, "where", 0, "EXPR", "only rows for which a condition holds: 'bytes > 1M'")            \
    X(STILL, "still", 0, "FILE[:K]", "only what appeared and is still there in a third snapshot")  \
    X(LIMIT, "limit", 0, "N", "at most N rows (why: chains, 1 by default)")                        \
    X(FROM, "from", 0, "NAME", "only chains that begin in roots of this name (or module!name)")    \
    X(ALL, "all", 0, NULL, "chains by all references, also where holders have none")               \
    X(SUPPRESSIONS, "suppressions", 0, "FILE", "leaks that are known, and left out (repeat)")      \
    X(STRICT, "strict", 0, NULL, "a suppression that takes out nothing holds like a condition")    \
    X(WHEN, "when", 0, "EXPR", "each time that a condition becomes true: 'rss > 2G'")              \
    X(BY, "by", 0, "WORD", "what bytes are broken down by: retainer, bin, ccs, type ...")          \
    X(OF, "of", 0, "EXPR", "report tree: of holders or dominators; histogram: of which objects")   \
    X(OBJECT, "object", 0, "ADDR", "the object that a picture is about")                           \
    X(EXE, "exe", 0, "FILE", "the program that a core is of")                                      \
    X(SYSROOT, "sysroot", 0, "DIR", "where the files of a core's machine lie")                     \
    X(DEBUG, "debug", 0, "DIR", "where files of debug information lie, by build-id or name")       \
    X(FORMAT, "format", 0, "text|json|csv",                                                        \
      "how results are printed; text by default (leaks: suppressions, too)")                       \
    X(PAUSE, "pause", 0, "auto|precopy|fork|copy",                                                 \
      "how memory is taken: auto is precopy from 64M on")                                          \
    X(MAX_PAUSE, "max-pause", 0, "DUR", "rather give up than stop the target for longer")          \
    X(ROOT, "root", 0, "NAME=EXPR",                                                                \
      "name a root, to see what it holds alone and with others (repeat)")                          \
    X(SCHEME, "scheme", 0, "root|module|thread|type|site",                                         \
      "who is a retainer, and by which name; root by default")                                     \
    X(RETAINER, "retainer", 0, "PATTERN", "which types retain, in scheme type (repeat)")           \
    X(MAX_SET, "max-set", 0, "N|auto",                                                             \
      "a retainer set of more names is MANY; 0: no limit; auto by default: as memory allows")      \
    X(THREADS_AS, "threads-as", 0, "name|one|parts",                                               \
      "stacks and registers: of all threads of a name, of each thread, or each by itself")         \
    X(HOLDERS, "holders", 0, "on|off",                                                             \
      "look at the references of holders alone, or at all; on by default")                         \
    X(RULES, "rules", 0, "-NAME", "a rule of stray references that is not to count (repeat)")      \
    X(ANALYSE, "analyse", 0, "now|later|sure",                                                     \
      "work out all now, later, or also what sure references retain; now by default")              \
    X(TYPES, "types", 0, "FILE", "what fields lead to where their types do not say (repeat)")      \
    X(TYPE_CACHE, "type-cache", 0, "on|off",                                                       \
      "keep what is read of types in the user's cache; on by default")                             \
    X(VISITS, "visits", 0, NULL,                                                                   \
      "count in censuses how often the document's algorithm visits an object")                     \
    X(CENTRE, "centre", 0, "PATTERN",                                                              \
      "only these functions are cost centres: PATTERN, module:, file:, region:, !... (repeat)")    \
    X(RECURSION, "recursion", 0, "truncate|whole",                                                 \
      "a cost centre that is on the stack already cuts it back to there, or not")                  \
    X(DEPTH, "depth", 0, "N", "functions of a call chain in mprof_leaks; 5 by default, 0: all")    \
    X(OFFSETS, "offsets", 0, NULL, "tell calls of one function apart in mprof_leaks")              \
    X(TERSE, "terse", 0, NULL, "only the most important rows of mprof's tables")                   \
    X(NORMAL, "normal", 0, NULL, "the important rows of mprof's tables; the default")              \
    X(VERBOSE, "verbose", 0, NULL, "all rows of mprof's tables")                                   \
    X(INTERIOR, "interior", 0, "on|off|known",                                                     \
      "what a pointer into the middle of an object counts for; known by default")                  \
    X(CONTENT, "content", 0, "none", "what is stored of the objects' bytes; none by default")      \
    X(THREADS, "threads", 0, "N",                                                                  \
      "threads that read and scan; as many as free processors by default")                         \
    X(RECORD, "record", 0, NULL, "record who allocates, too, from now on")                         \
    X(SAMPLE, "sample", 0, "BYTES",                                                                \
      "record one allocation in so many bytes, and estimate: 64K, 512K")                           \
    X(MIN_SIZE, "min-size", 0, "BYTES", "record only requests of at least so many bytes")          \
    X(MAX_SIZE, "max-size", 0, "BYTES", "record only requests of at most so many bytes")           \
    X(MIN_AGE, "min-age", 0, "DUR", "count as live only what was allocated so long before")        \
    X(MMAP, "mmap", 0, NULL, "record the program's own mmap and munmap, too")                      \
    X(CHILDREN, "children", 0, NULL, "record the processes that CMD starts, too")                  \
    X(AT_EXIT, "at-exit", 0, NULL, "a last snapshot when the program is about to end")             \
    X(SCRIPT, "script", 0, "FILE", "run the explorer's keys and commands from FILE")               \
    X(COLOR, "color", 0, "[=auto|always|never]", "colours; NO_COLOR and TERM=dumb turn them off")  \
    X(HELP, "help", 'h', NULL, "this text")                                                        \
    X(VERSION, "version", 'V', NULL, "the version")

enum hx_option_id {
#define X(id, name, letter, argument, about) HX_OPT_##id,
    HX_OPTIONS(X)
#undef X
        HX_OPTS
};

#define HX_BIT(id)     ((uint64_t)1 << HX_OPT_##id)
#define HX_OPTS_ALWAYS (HX_BIT(HELP) | HX_BIT(VERSION) | HX_BIT(COLOR))
#define HX_OPTS_RECORDER                                                                           \
    (HX_BIT(SAMPLE) | HX_BIT(MIN_SIZE) | HX_BIT(MAX_SIZE) | HX_BIT(MIN_AGE) | HX_BIT(MMAP))
#define HX_OPTS_CAPTURE                                                                            \
    (HX_BIT(PAUSE) | HX_BIT(MAX_PAUSE) | HX_BIT(INTERIOR) | HX_BIT(CONTENT) | HX_BIT(THREADS) |    \
     HX_BIT(RECORD) | HX_OPTS_RECORDER)
/* They change what a snapshot says, so a store cannot obey them afterwards. */
#define HX_OPTS_OF_PROCESS (HX_BIT(INTERIOR) | HX_BIT(RECORD) | HX_OPTS_RECORDER)
#define HX_OPTS_ANALYSIS                                                                           \
    (HX_BIT(ROOT) | HX_BIT(SCHEME) | HX_BIT(RETAINER) | HX_BIT(MAX_SET) | HX_BIT(THREADS_AS) |     \
     HX_BIT(HOLDERS) | HX_BIT(RULES) | HX_BIT(ANALYSE))
#define HX_OPTS_TAKE (HX_OPTS_CAPTURE | HX_OPTS_ANALYSIS | HX_BIT(TYPES) | HX_BIT(TYPE_CACHE))
/* How recorded stacks are told of; the recording stays what it is. */
#define HX_OPTS_ATTRIBUTION (HX_BIT(CENTRE) | HX_BIT(RECURSION) | HX_BIT(DEPTH) | HX_BIT(OFFSETS))
#define HX_OPTS_LEVELS      (HX_BIT(TERSE) | HX_BIT(NORMAL) | HX_BIT(VERBOSE))
/* How a file that is no store is read. */
#define HX_OPTS_FOREIGN (HX_BIT(EXE) | HX_BIT(SYSROOT))
#define HX_OPTS_SERIES  (HX_BIT(EVERY) | HX_BIT(COUNT) | HX_BIT(DURATION))

struct hx_command;

/* A parsed call. Strings point into argv; the lists are its own. */
struct hx_args {
    const struct hx_command *command;
    char **word; /* the positional arguments */
    size_t n_words;
    uint64_t given; /* HX_BIT of every option that was there */
    const char *out, *script, *snapshot, *sort, *where, *still, *from, *when;
    const char **suppressions; /* files */
    size_t n_suppressions;
    const char **types; /* files */
    size_t n_types;
    bool strict, all;
    bool type_cache;
    bool as_suppressions; /* --format suppressions: rows of leaks as entries that match them */
    const char *by, *of, *exe, *sysroot, *debug; /* NULL: not said */
    uint64_t object;                             /* --object */
    uint64_t every_ns, duration_ns, count, limit;
    enum hx_format format;
    const char *pause; /* a method that is asked for and not in this version; else NULL */
    struct hx_capture_options capture;
    bool record; /* attach the recorder */
    struct hx_record_options recorder;
    uint64_t min_age_ns;
    enum hx_interior interior;
    struct hx_analysis analysis; /* its patterns are args.retainer */
    const char **root;           /* "NAME=EXPR", tested */
    const char **retainer;
    struct hx_attribution attribution; /* its patterns are args.centre */
    const char **centre;
    bool terse, verbose; /* how many rows of mprof's tables; neither: the important ones */
    size_t n_roots;
    unsigned threads; /* 0: decide */
    int color;        /* -1: decide, 0: never, 1: always */
};

static inline bool hx_args_given(const struct hx_args *args, enum hx_option_id id)
{
    return args->given >> id & 1;
}

/* Must be given back, also after an error. Parses argv[1...] of a subcommand; options may stand
 * anywhere before `--`. Reorders argv. Errors are of kind HX_E_USAGE. */
hx_error *hx_args_parse(const struct hx_command *command, int argc, char **argv,
                        struct hx_args *ret);
void hx_args_deinit(struct hx_args *args);
#define HX_ARGS __attribute__((cleanup(hx_args_deinit)))

/* The line of an option in the help text. */
void hx_option_help(enum hx_option_id id, struct hx_text *text);

/* A PID in digits. Anything else is HX_E_USAGE; digits beyond any PID are HX_E_ABSENT. */
hx_error *hx_parse_pid(const char *word, pid_t *ret);

/* Is this TARGET a process (all digits)? */
bool hx_is_pid(const char *word);

#endif
