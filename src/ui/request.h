/* request.h - everything that a key or a command line can ask for.
 *
 * One list: the key table, the commands, the help screen, and what is generated from it later
 * (man page, palette) come from here. Each request has a handler hx_do_NAME; those that belong to a
 * screen stand in its file.
 */
#ifndef HX_UI_REQUEST_H
#define HX_UI_REQUEST_H

#include "base/error.h"

struct hx_ui;

/* handler, command, keys, argument ("" none, "[X]" may be left out), group, help.
 * A digit is the key of its screen (screen.h) and stands in no line here. */
#define HX_UI_REQUESTS(X)                                                                          \
    X(up, "up", "Up k", "", "Move", "one row up")                                                  \
    X(down, "down", "Down j", "", "Move", "one row down")                                          \
    X(page_up, "page-up", "PgUp Ctrl-B", "", "Move", "one page up")                                \
    X(page_down, "page-down", "PgDn Ctrl-F", "", "Move", "one page down")                          \
    X(half_up, "half-up", "Ctrl-U", "", "Move", "half a page up")                                  \
    X(half_down, "half-down", "Ctrl-D", "", "Move", "half a page down")                            \
    X(first, "first", "Home g", "", "Move", "first row")                                           \
    X(last, "last", "End G", "", "Move", "last row")                                               \
    X(next_sibling, "next-sibling", "J", "", "Move", "in a tree, the next beside this one")        \
    X(previous_sibling, "previous-sibling", "K", "", "Move", "in a tree, the one before this")     \
    X(open, "open", "Enter Right l", "", "Look", "open what the row stands for")                   \
    X(back, "back", "Left h Backspace", "", "Look", "back to where it was opened")                 \
    X(escape, "escape", "Esc", "", "Look", "cancel long work, else back")                          \
    X(forward, "forward", "L", "", "Look", "forward again, after back")                            \
    X(why, "why", "w", "[ADDRESS]", "Look", "why is it alive: chains from roots")                  \
    X(objects, "objects", "o", "", "Look", "the objects of this row")                              \
    X(referrers, "referrers", "R", "", "Look", "the object: referrers and referents")              \
    X(stack, "stack", "s", "[ADDRESS]", "Look", "who allocated it: the stack")                     \
    X(threads, "threads", "", "", "Look", "where each thread stood")                               \
    X(unfold, "unfold", "+", "", "Look", "what is below this node of a tree")                      \
    X(fold, "fold", "-", "", "Look", "not any more, or what it is below")                          \
    X(unfold_all, "unfold-all", "*", "", "Look", "everything below this node")                     \
    X(hex, "hex", "x", "[ADDRESS]", "Look", "its bytes and fields")                                \
    X(goto, "goto", "", "ADDRESS", "Look", "the object that contains an address")                  \
    X(details, "details", "i", "", "Look", "all values of this row")                               \
    X(next_screen, "next-screen", "Tab", "", "Screens", "next screen")                             \
    X(previous_screen, "previous-screen", "Shift-Tab", "", "Screens", "previous screen")           \
    X(screen, "screen", "", "NAME", "Screens", "a screen by its name")                             \
    X(view, "view", "v", "", "Screens", "other view: chart or list, tree or flame")                \
    X(by, "by", "b", "[BREAKDOWN]", "Screens", "what the chart shows; none: the next")             \
    X(previous_snapshot, "previous-snapshot", "[", "", "Snapshots", "previous snapshot")           \
    X(next_snapshot, "next-snapshot", "]", "", "Snapshots", "next snapshot")                       \
    X(snapshot, "snapshot", "", "N|first|last", "Snapshots", "the snapshot with that number")      \
    X(snap, "snap", "a", "", "Snapshots", "take another snapshot now")                             \
    X(mark, "mark", "Space", "[SNAPSHOT]", "Snapshots", "mark the row, or a snapshot for d")       \
    X(unmark, "unmark", "U", "", "Snapshots", "unmark all")                                        \
    X(difference, "difference", "d", "[SNAPSHOT]", "Snapshots",                                    \
      "differences to the marked or previous one")                                                 \
    X(search, "search", "/ F3", "[REGEX]", "Find and order", "search what rows show")              \
    X(search_next, "search-next", "n", "", "Find and order", "next row that matches")              \
    X(search_previous, "search-previous", "N", "", "Find and order", "previous row that matches")  \
    X(filter, "filter", "f \\ F4", "[CONDITION]", "Find and order",                                \
      "only rows for which it holds")                                                              \
    X(no_filter, "no-filter", "F", "", "Find and order", "all rows again")                         \
    X(sort_left, "sort-left", "<", "", "Find and order", "sort by the column to the left")         \
    X(sort_right, "sort-right", ">", "", "Find and order", "sort by the column to the right")      \
    X(reverse, "reverse", "I", "", "Find and order", "reverse the order")                          \
    X(sort, "sort", "", "COLUMN", "Find and order", "sort by a column")                            \
    X(analyse, "analyse", "", "", "Analysis", "work out what this snapshot lacks")                 \
    X(scheme, "scheme", "", "root|module|thread|type|site", "Analysis", "who retains")             \
    X(retainer, "retainer", "", "[PATTERN]", "Analysis", "one more type retains; none: all")       \
    X(max_set, "max-set", "", "N", "Analysis", "most names in a set; 0: no limit")                 \
    X(root, "root", "", "[NAME=EXPR]", "Analysis", "name a root for bins; else list them")         \
    X(unroot, "unroot", "", "NAME", "Analysis", "take a root's name away")                         \
    X(write, "write", "P", "[FILE]", "Files", "write this list (.json .csv .txt)")                 \
    X(overwrite, "write!", "", "FILE", "Files", "the same over a file that exists")                \
    X(save_display, "save-display", "", "FILE", "Files", "write the screen as text")               \
    X(command, "command", ":", "", "Other", "type a command")                                      \
    X(palette, "palette", "Ctrl-P", "", "Other", "all commands, found as you type")                \
    X(sql, "sql", ";", "[SELECT]", "Other", "ask the store; the answer is a list")                 \
    X(help, "help", "? F1", "", "Other", "this help")                                              \
    X(messages, "messages", "", "", "Other", "what was said on the last line")                     \
    X(set, "set", "", "mouse on|off", "Other", "a setting")                                        \
    X(resize, "resize", "", "LINES COLUMNS", "Other", "another size, in scripts")                  \
    X(redraw, "redraw", "Ctrl-L", "", "Other", "draw everything anew")                             \
    X(suspend, "suspend", "Ctrl-Z", "", "Other", "stop; fg comes back")                            \
    X(close, "close", "q", "", "Other", "leave the view; at the top: quit")                        \
    X(quit, "quit", "Q Ctrl-C F10", "", "Other", "quit at once")

struct hx_request {
    const char *name, *keys, *args, *group, *help;
    hx_error *(*run)(struct hx_ui *ui, const char *arg);
};
/* Ends with name NULL. */
extern const struct hx_request hx_requests[];

#define HX_UI_DECLARE_REQUEST(id, name, keys, args, group, help)                                   \
    hx_error *hx_do_##id(struct hx_ui *ui, const char *arg);
HX_UI_REQUESTS(HX_UI_DECLARE_REQUEST)
#undef HX_UI_DECLARE_REQUEST

/* By its name or the only one that begins so; NULL when there is none. */
const struct hx_request *hx_request_find(const char *name, size_t n);
const struct hx_request *hx_request_of_key(int key);

/* Runs "NAME ARGUMENT". */
hx_error *hx_command_run(struct hx_ui *ui, const char *line);

/* Keys have names ("j", "Enter", "Ctrl-D", "F1"); 0 when unknown. Longer ones come from curses
 * as negative numbers (term.h). */
int hx_key_parse(const char *name, size_t n);

#endif
