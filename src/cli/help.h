/* help.h - how help is laid out, and the examples of each command. */
#ifndef HX_CLI_HELP_H
#define HX_CLI_HELP_H

#include "base/text.h"

/* A line of a table: what it is about, and the words beside it, broken before column 80. */
void hx_help_row(struct hx_text *text, const char *left, const char *about);

/* command, what to type, what that does */
#define HX_EXAMPLES(X)                                                                             \
    X(attach, "heapx attach 4711", "look at the heap of a process")                                \
    X(attach, "heapx attach 4711 -o app.hx --every 10s --record",                                  \
      "with a snapshot every ten seconds, and who allocates from now on")                          \
    X(open, "heapx open app.hx", "look at what was taken before")                                  \
    X(open, "heapx open app.hx --scheme type --retainer 'Session'",                                \
      "by another question: what is held by objects of this type")                                 \
    X(snap, "heapx snap 4711 -o app.hx", "one snapshot; more are appended to the same file")       \
    X(snap, "heapx snap 4711 -o app.hx --every 10s --duration 5m", "a series")                     \
    X(snap, "heapx snap 4711 -o app.hx --when 'rss > 2G'", "as soon as it has grown")              \
    X(run, "heapx run -o app.hx --at-exit -- ./app --fast",                                        \
      "all allocations of a program, and what it never freed")                                     \
    X(run, "heapx run --every 1s --sample 512K ./app", "nearly for nothing, as estimates")         \
    X(record, "heapx record 4711 -o app.hx --duration 30s", "who allocates, for half a minute")    \
    X(analyse, "heapx analyse app.hx", "what was left out by --analyse later")                     \
    X(symbolize, "heapx symbolize app.hx --debug ./debug",                                         \
      "variables and types, from files that the server lacked")                                    \
    X(report, "heapx report 4711 types --limit 10", "what a process has most of, now")             \
    X(report, "heapx report app.hx roots --where 'retained_bytes > 1M' --format csv",              \
      "what holds more than a megabyte, for another program")                                      \
    X(report, "heapx report app.hx leaks --snapshot all", "lost memory over time")                 \
    X(report, "heapx report app.hx tree --of holders", "the heap in few rows")                     \
    X(report, "heapx report app.hx histogram --of \"retainer = 'cache'\" --by size",               \
      "what one variable keeps, by size")                                                          \
    X(why, "heapx why app.hx 0x55d0c8a412a0", "the shortest chain that keeps an object alive")     \
    X(why, "heapx why app.hx 0x55d0c8a412a0 --limit 5 --from cache",                               \
      "five chains from one variable")                                                             \
    X(diff, "heapx diff app.hx:first app.hx", "who holds more than in the beginning")              \
    X(diff, "heapx diff app.hx:1 app.hx:2 objects --still app.hx:3",                               \
      "objects that came, and stayed")                                                             \
    X(check, "heapx check app.hx 'leaked_bytes > 0'", "exit status 4 when something is lost")      \
    X(check, "heapx check app.hx 'leaked_bytes > 0' --suppressions known", "but what is known")    \
    X(check, "heapx check 4711 'types.type ~ \"^Session\" and types.objects > 1000'",              \
      "when a process has too many of something")                                                  \
    X(export, "heapx export app.hx flamegraph -o app.svg", "a picture of who allocates, or holds") \
    X(export, "heapx export app.hx pprof -o app.pb.gz", "for go tool pprof and its like")          \
    X(export, "heapx export app.hx hp --by type -o app.hp", "types over time, for hp2ps")          \
    X(export, "heapx export app.hx csv --by roots --snapshot 3", "a view, to standard output")     \
    X(import, "heapx import app.eventlog -o app.hx", "GHC's profile as a store")                   \
    X(import, "heapx import core.4711 -o app.hx --exe ./app", "a core as a store")                 \
    X(sql, "heapx sql app.hx 'SELECT taken_at, heap_bytes FROM snapshots'", "how it grew")         \
    X(sql, "heapx sql app.hx 'SELECT state, sum(bytes) FROM objects GROUP BY 1'",                  \
      "figures over single objects")                                                               \
    X(doctor, "heapx doctor", "what works on this machine")                                        \
    X(doctor, "heapx doctor 4711", "whether this process can be looked at")                        \
    X(demo, "heapx demo", "a program that leaks, and the explorer on it")                          \
    X(help, "heapx help report", "the options of one command")                                     \
    X(help, "heapx help views", "the views and their columns; also: formats, conditions")

#endif
