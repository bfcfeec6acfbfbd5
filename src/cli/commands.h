/* commands.h - the subcommands: one list.
 *
 * Adding one: a line in HX_COMMANDS, a file src/cli/NAME.c with hx_cmd_NAME(), its line in
 * Makefile.am, a test, a paragraph in the manual.
 */
#ifndef HX_CLI_COMMANDS_H
#define HX_CLI_COMMANDS_H

#include "cli/words/options.h"

enum hx_exit {
    HX_EXIT_DONE = 0,
    HX_EXIT_FAILED = 1,
    HX_EXIT_USAGE = 2,
    HX_EXIT_PARTIAL = 3,
    HX_EXIT_HOLDS = 4,
    HX_EXIT_INTERRUPTED = 130,
};

/* name, positional arguments, least and most of them, options, what it does */
#define HX_COMMANDS(X)                                                                             \
    X(attach, "PID", 1, 1, HX_OPTS_TAKE | HX_BIT(OUT) | HX_BIT(EVERY) | HX_BIT(SCRIPT),            \
      "explore a process")                                                                         \
    X(open, "FILE", 1, 1,                                                                          \
      HX_OPTS_ANALYSIS | HX_OPTS_ATTRIBUTION | HX_OPTS_FOREIGN | HX_BIT(SCRIPT),                   \
      "explore a store, a core, a GHC profile")                                                    \
    X(snap, "PID", 1, 1, HX_OPTS_TAKE | HX_OPTS_SERIES | HX_BIT(OUT) | HX_BIT(WHEN),               \
      "take snapshots of a process into a store")                                                  \
    X(run, "[--] CMD [ARG...]", 1, ~0U,                                                            \
      HX_OPTS_TAKE | HX_OPTS_SERIES | HX_BIT(OUT) | HX_BIT(CHILDREN) | HX_BIT(AT_EXIT),            \
      "start a program and record every allocation of it")                                         \
    X(record, "PID", 1, 1, HX_OPTS_TAKE | HX_OPTS_SERIES | HX_BIT(OUT),                            \
      "record who allocates in a process that runs")                                               \
    X(analyse, "FILE", 1, 1, HX_BIT(ANALYSE) | HX_BIT(SNAPSHOT) | HX_BIT(THREADS),                 \
      "work out what snapshots of a store lack, and store it")                                     \
    X(symbolize, "FILE", 1, 1,                                                                     \
      HX_BIT(DEBUG) | HX_BIT(SNAPSHOT) | HX_BIT(TYPES) | HX_BIT(TYPE_CACHE) | HX_BIT(THREADS) |    \
          HX_BIT(ANALYSE),                                                                         \
      "give names and types to a store, from debug files found later")                             \
    X(report, "TARGET VIEW", 2, 2,                                                                 \
      HX_OPTS_TAKE | HX_OPTS_ATTRIBUTION | HX_OPTS_LEVELS | HX_OPTS_FOREIGN | HX_BIT(SNAPSHOT) |   \
          HX_BIT(WHERE) | HX_BIT(SORT) | HX_BIT(LIMIT) | HX_BIT(FORMAT) | HX_BIT(SUPPRESSIONS) |   \
          HX_BIT(VISITS) | HX_BIT(OF) | HX_BIT(BY),                                                \
      "print a view of a store or of a process")                                                   \
    X(why, "TARGET ADDR", 2, 2,                                                                    \
      HX_OPTS_CAPTURE | HX_OPTS_FOREIGN | HX_BIT(SNAPSHOT) | HX_BIT(LIMIT) | HX_BIT(FROM) |        \
          HX_BIT(ALL) | HX_BIT(HOLDERS) | HX_BIT(RULES) | HX_BIT(FORMAT),                          \
      "print what keeps an object alive: chains from roots, shortest first")                       \
    X(diff, "FILE[:N] FILE[:M] [VIEW]", 2, 3,                                                      \
      HX_OPTS_FOREIGN | HX_BIT(STILL) | HX_BIT(WHERE) | HX_BIT(SORT) | HX_BIT(LIMIT) |             \
          HX_BIT(FORMAT),                                                                          \
      "print what differs between two snapshots, of one store or of two")                          \
    X(check, "TARGET 'EXPR' ['EXPR'...]", 2, ~0U,                                                  \
      HX_OPTS_TAKE | HX_OPTS_ATTRIBUTION | HX_OPTS_FOREIGN | HX_BIT(SNAPSHOT) | HX_BIT(FORMAT) |   \
          HX_BIT(SUPPRESSIONS) | HX_BIT(STRICT),                                                   \
      "tell whether conditions hold, for scripts: exit status 4 when one does")                    \
    X(export, "FILE FORMAT", 2, 2,                                                                 \
      HX_OPTS_ANALYSIS | HX_OPTS_ATTRIBUTION | HX_OPTS_FOREIGN | HX_BIT(BY) | HX_BIT(OBJECT) |     \
          HX_BIT(SNAPSHOT) | HX_BIT(OUT),                                                          \
      "write a store in the format of another program")                                            \
    X(import, "IN", 1, 1, HX_OPTS_FOREIGN | HX_BIT(OUT) | HX_BIT(THREADS_AS),                      \
      "read a core or a GHC profile into a store")                                                 \
    X(sql, "FILE 'SELECT ...'", 2, 2, HX_OPTS_FOREIGN | HX_BIT(FORMAT) | HX_BIT(ANALYSE),          \
      "ask a store in SQL, read only")                                                             \
    X(doctor, "[PID]", 0, 1, HX_BIT(FORMAT),                                                       \
      "what works here, and what to type where it does not")                                       \
    X(demo, "", 0, 0, HX_OPTS_TAKE | HX_BIT(OUT) | HX_BIT(EVERY) | HX_BIT(SCRIPT),                 \
      "explore a small leaking sample program")                                                    \
    X(help, "[COMMAND]", 0, 1, 0, "what the commands and their options are")

/* Does the work and sets *status to one of enum hx_exit; on an error it need not. */
typedef hx_error *hx_command_fn(const struct hx_args *args, int *status);

#define X(name, positional, least, most, options, about) hx_command_fn hx_cmd_##name;
HX_COMMANDS(X)
#undef X

struct hx_command {
    const char *name, *positional;
    unsigned least, most;
    uint64_t options; /* HX_BIT of those it takes */
    const char *about;
    hx_command_fn *run;
};
extern const struct hx_command hx_commands[]; /* ends with name NULL */

const struct hx_command *hx_command_find(const char *name); /* NULL when unknown */

/* The error of an unknown command, with a hint where one is near. */
hx_error *hx_command_unknown(const char *name);

#endif
