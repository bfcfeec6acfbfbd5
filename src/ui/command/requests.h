/* requests.h - everything that a key or a command line can ask for.
 *
 * One list: the key table, the commands, the help screen, and what is generated from it
 * (manual, palette) come from here. Each request has a handler hx_do_NAME; those that belong to a
 * screen stand in its file.
 */
#ifndef HX_UI_COMMAND_REQUESTS_H
#define HX_UI_COMMAND_REQUESTS_H

#include "base/error.h"

struct hx_ui;

/* What has to be there before a key or command can do what it was typed for: keys that are typed
 * ahead wait for it (waiting.c). Each holds what those before it do. */
enum hx_waits {
    HX_WAITS_NOW,       /* nothing */
    HX_WAITS_SNAPSHOTS, /* which snapshots there are */
    HX_WAITS_LIST,      /* the list is loaded */
    HX_WAITS_ROW,       /* nothing is about to move the cursor or to open another screen */
};

/* handler, command, keys, argument ("" none, "[X]" may be left out), group, help, HX_WAITS_*.
 * A digit is the key of its screen (screen.h) and stands in no line here. */
#define HX_UI_REQUESTS(X)                                                                          \
    X(up, "up", "Up k", "", "Move", "one row up", LIST)                                            \
    X(down, "down", "Down j", "", "Move", "one row down", LIST)                                    \
    X(page_up, "page-up", "PgUp Ctrl-B", "", "Move", "one page up", LIST)                          \
    X(page_down, "page-down", "PgDn Ctrl-F", "", "Move", "one page down", LIST)                    \
    X(half_up, "half-up", "Ctrl-U", "", "Move", "half a page up", LIST)                            \
    X(half_down, "half-down", "Ctrl-D", "", "Move", "half a page down", LIST)                      \
    X(first, "first", "Home g", "", "Move", "first row", LIST)                                     \
    X(last, "last", "End G", "", "Move", "last row", LIST)                                         \
    X(next_sibling, "next-sibling", "J", "", "Move", "in a tree, the next beside this one", LIST)  \
    X(previous_sibling, "previous-sibling", "K", "", "Move", "in a tree, the one before this",     \
      LIST)                                                                                        \
    X(open, "open", "Enter Right l", "", "Look", "open what the row stands for", ROW)              \
    X(back, "back", "Left h Backspace", "", "Look", "back to where it was opened", NOW)            \
    X(escape, "escape", "Esc", "", "Look", "back, always; Ctrl-C cancels", NOW)                    \
    X(forward, "forward", "L", "", "Look", "forward again, after back", NOW)                       \
    X(why, "why", "w", "[ADDRESS]", "Look", "why is it alive: chains from roots", ROW)             \
    X(objects, "objects", "o", "", "Look", "the objects of this row", ROW)                         \
    X(histogram, "histogram", "H", "[BY]", "Look", "its objects by type, size, site, age", ROW)    \
    X(referrers, "referrers", "R", "", "Look", "the object: referrers and referents", ROW)         \
    X(stack, "stack", "s", "[ADDRESS]", "Look", "who allocated it: the stack", ROW)                \
    X(threads, "threads", "", "", "Look", "where each thread stood", NOW)                          \
    X(tree, "tree", "", "[holders|dominators]", "Look", "this root's objects, merged by type",     \
      ROW)                                                                                         \
    X(unfold, "unfold", "+", "", "Look", "what is below this node of a tree", ROW)                 \
    X(fold, "fold", "-", "", "Look", "not any more, or what it is below", ROW)                     \
    X(unfold_all, "unfold-all", "*", "", "Look", "everything below this node", ROW)                \
    X(hex, "hex", "x", "[ADDRESS]", "Look", "its bytes and fields", ROW)                           \
    X(goto, "goto", "", "ADDRESS", "Look", "the object that contains an address", LIST)            \
    X(details, "details", "i", "", "Look", "all values of this row", ROW)                          \
    X(next_screen, "next-screen", "Tab", "", "Screens", "next screen", NOW)                        \
    X(previous_screen, "previous-screen", "Shift-Tab", "", "Screens", "previous screen", NOW)      \
    X(screen, "screen", "", "NAME", "Screens", "a screen by its name", NOW)                        \
    X(view, "view", "v", "", "Screens", "other view: chart or list, tree or flame", NOW)           \
    X(by, "by", "b", "[BREAKDOWN]", "Screens", "what the chart shows; none: the next", NOW)        \
    X(previous_snapshot, "previous-snapshot", "[", "", "Snapshots", "previous snapshot",           \
      SNAPSHOTS)                                                                                   \
    X(next_snapshot, "next-snapshot", "]", "", "Snapshots", "next snapshot", SNAPSHOTS)            \
    X(snapshot, "snapshot", "", "N|first|last", "Snapshots", "the snapshot with that number",      \
      SNAPSHOTS)                                                                                   \
    X(snap, "snap", "a", "", "Snapshots", "take another snapshot now", NOW)                        \
    X(mark, "mark", "Space", "[SNAPSHOT]", "Snapshots", "mark the row, or a snapshot for d", ROW)  \
    X(unmark, "unmark", "U", "", "Snapshots", "unmark all", NOW)                                   \
    X(difference, "difference", "d", "[SNAPSHOT]", "Snapshots",                                    \
      "differences to the marked or previous one", SNAPSHOTS)                                      \
    X(search, "search", "/ F3", "[REGEX]", "Find and order", "search what rows show", NOW)         \
    X(search_next, "search-next", "n", "", "Find and order", "next row that matches", ROW)         \
    X(search_previous, "search-previous", "N", "", "Find and order", "previous row that matches",  \
      ROW)                                                                                         \
    X(filter, "filter", "f \\ F4", "[CONDITION]", "Find and order",                                \
      "only rows for which it holds", NOW)                                                         \
    X(no_filter, "no-filter", "F", "", "Find and order", "all rows again", NOW)                    \
    X(sort_left, "sort-left", "<", "", "Find and order", "sort by the column to the left", NOW)    \
    X(sort_right, "sort-right", ">", "", "Find and order", "sort by the column to the right", NOW) \
    X(reverse, "reverse", "I", "", "Find and order", "reverse the order", NOW)                     \
    X(sort, "sort", "", "COLUMN", "Find and order", "sort by a column", NOW)                       \
    X(analyse, "analyse", "", "[sure]", "Analysis", "work out what this snapshot lacks",           \
      SNAPSHOTS)                                                                                   \
    X(scheme, "scheme", "", "root|module|thread|type|site", "Analysis", "who retains", SNAPSHOTS)  \
    X(retainer, "retainer", "", "[PATTERN]", "Analysis", "one more type retains; none: all",       \
      SNAPSHOTS)                                                                                   \
    X(max_set, "max-set", "", "N|auto", "Analysis", "most names in a set; 0: no limit", SNAPSHOTS) \
    X(threads_as, "threads-as", "", "name|one|parts", "Analysis",                                  \
      "by what name a thread's stack holds", SNAPSHOTS)                                            \
    X(holders, "holders", "", "on|off", "Analysis", "references of holders, or all of them",       \
      SNAPSHOTS)                                                                                   \
    X(rules, "rules", "", "-NAME|+NAME", "Analysis", "a rule of stray words, off or on",           \
      SNAPSHOTS)                                                                                   \
    X(root, "root", "", "[NAME=EXPR]", "Analysis", "name a root for bins; else list them",         \
      SNAPSHOTS)                                                                                   \
    X(unroot, "unroot", "", "NAME", "Analysis", "take a root's name away", SNAPSHOTS)              \
    X(save, "save", "", "FILE", "Files", "keep the snapshots in a store", NOW)                     \
    X(write, "write", "P", "[FILE]", "Files", "write this list (.json .csv .txt)", LIST)           \
    X(overwrite, "write!", "", "FILE", "Files", "the same over a file that exists", LIST)          \
    X(save_display, "save-display", "", "FILE", "Files", "write the screen as text", NOW)          \
    X(command, "command", ":", "", "Other", "type a command", NOW)                                 \
    X(palette, "palette", "Ctrl-P", "", "Other", "all commands, found as you type", NOW)           \
    X(sql, "sql", ";", "[SELECT]", "Other", "ask the store; the answer is a list", SNAPSHOTS)      \
    X(help, "help", "? F1", "", "Other", "this help", NOW)                                         \
    X(messages, "messages", "", "", "Other", "what was said on the last line", NOW)                \
    X(set, "set", "", "mouse on|off", "Other", "a setting", NOW)                                   \
    X(resize, "resize", "", "LINES COLUMNS", "Other", "another size, in scripts", NOW)             \
    X(redraw, "redraw", "Ctrl-L", "", "Other", "draw everything anew", NOW)                        \
    X(suspend, "suspend", "Ctrl-Z", "", "Other", "stop; fg comes back", NOW)                       \
    X(close, "close", "q", "", "Other", "leave the view; at the top: quit", NOW)                   \
    X(cancel, "cancel", "Ctrl-C", "", "Other", "cancel what is under way, else quit", NOW)         \
    X(quit, "quit", "Q F10", "", "Other", "quit at once", NOW)

struct hx_request {
    const char *name, *keys, *args, *group, *help;
    hx_error *(*run)(struct hx_ui *ui, const char *arg);
    enum hx_waits waits;
};
/* Ends with name NULL. */
extern const struct hx_request hx_requests[];

#define HX_UI_DECLARE_REQUEST(id, name, keys, args, group, help, waits)                            \
    hx_error *hx_do_##id(struct hx_ui *ui, const char *arg);
HX_UI_REQUESTS(HX_UI_DECLARE_REQUEST)
#undef HX_UI_DECLARE_REQUEST

#endif
