/* app.h - the state of one run of the explorer, for its own files. */
#ifndef HX_UI_APP_H
#define HX_UI_APP_H

#include "base/text.h"
#include "base/timing.h"
#include "base/vec.h"
#include "model/snapshot.h"
#include "store/store.h"
#include "traverse/why/backwards.h"
#include "ui/screen.h"
#include "ui/term/term.h"

struct hx_choice;
struct hx_jobs;
struct hx_pane;
struct hx_prompt;
struct hx_revision;
struct hx_ui_options;

/* A line that stood at the bottom. */
struct hx_said {
    char *text;       /* owned */
    int64_t at;       /* seconds of CLOCK_REALTIME; 0: in a script, which knows no time */
    bool bad;         /* an error */
    uint64_t repeats; /* so often again */
};

/* A key that came too early. */
struct hx_waiting_key {
    int key;
    bool pasted;
};

struct hx_ui {
    const struct hx_ui_options *options;
    struct hx_term term;
    struct hx_jobs *jobs;

    struct hx_table snapshots; /* the view, all of it */
    int64_t snapshot;          /* the current one, 0: none */
    bool follow;               /* a newer one becomes the current one */
    int64_t marked;            /* the snapshot to compare with; 0: the one before the current one */
    bool differences;          /* every census shows differences to it */
    bool gone;                 /* the live process has ended */
    bool snapping;             /* a snapshot is under way or queued */
    bool snap_failed;          /* the last try to take one */
    int64_t announce;          /* the new one to speak of once it is listed, 0: none */
    uint64_t next_snap_ns;     /* CLOCK_MONOTONIC; 0: never */

    struct hx_pane *base[HX_SCREENS]; /* owned; made at first use */
    /* open[0] is a base pane, the others are owned; open[at] is shown, what follows was left
     * by going back. */
    HX_VEC(struct hx_pane *) open;
    size_t at;
    const struct hx_screen *shown; /* that was asked for last; open[0] may stand for it */
    uint64_t serial;

    struct hx_text message;
    bool message_bad;
    HX_VEC(struct hx_said) log;
    struct hx_prompt *prompt;
    char *pattern;                     /* of the last search */
    char *draft;                       /* a filter that had an error, to be corrected; NULL: none */
    uint64_t draft_of;                 /* pane */
    char *statement;                   /* SQL that failed, to be corrected; NULL: none */
    uint64_t asked;                    /* so many statements were asked */
    HX_VEC(struct hx_reply *) replies; /* all answers to them (sql_reply.h); owned */
    uint64_t searches;                 /* so many were begun; only the newest moves the cursor */
    /* The last click, and the pane (its serial) and row that it was on; -1: on none. */
    int click_line, click_column;
    uint64_t click_ns, click_pane;
    int64_t click_row;
    /* What an Esc left, should it turn out to be the beginning of another key. */
    struct {
        bool valid, prompt;
        size_t at, open;
    } escaped;

    bool quit, killed;
    unsigned listing;   /* jobs under way that read which snapshots there are */
    uint64_t worked_ns; /* when the last job that was announced came to its end; 0: none has */

    /* Keys that wait for what they are about, the oldest first (waiting.c). */
    HX_VEC(struct hx_waiting_key) waiting;
    uint64_t waiting_ns; /* when the first of them came */

    int64_t saved;     /* the last snapshot that a file holds, of a temporary store; 0: none */
    char question[96]; /* what a prompt asks */

    /* The graph of one snapshot, for chains; touched on the WORK lane only. */
    struct hx_snapshot *graph;
    int64_t graph_of;        /* 0: of a part of one */
    hx_backwards *backwards; /* of a large snapshot, for such parts; NULL: none */
    int64_t backwards_of;

    struct hx_choice *choice;
    HX_VEC(struct hx_revision) revisions; /* of snapshots that were looked at since */
    unsigned revising;                    /* jobs under way or queued */
    bool naming;                          /* so is one that names a snapshot */
};

static inline struct hx_pane *hx_ui_pane(const struct hx_ui *ui)
{
    return ui->open.n ? ui->open.v[ui->at] : NULL;
}

/* The pane with that serial, NULL when it was closed. */
struct hx_pane *hx_ui_find_pane(struct hx_ui *ui, uint64_t serial);

/* Shows a screen of the first level; forgets the way that led to the old one. */
hx_error *hx_ui_show(struct hx_ui *ui, const struct hx_screen *screen);

/* After a change of what the shown snapshot has: another one may stand for it then. */
hx_error *hx_ui_show_instead(struct hx_ui *ui);

/* screen_holders.c: what stands for a screen: the flat list of retainer sets for that of holders
 * where the shown snapshot can have none, else the screen itself. */
const struct hx_screen *hx_ui_stands_for(const struct hx_ui *ui, const struct hx_screen *screen);
/* Appends a line that says why it has no holders; nothing where it has some, or may get them. */
void hx_ui_put_no_holders(const struct hx_ui *ui, struct hx_text *ret);

/* Opens a pane on top of the shown one; owns it. */
hx_error *hx_ui_push(struct hx_ui *ui, struct hx_pane *pane);
/* Closes what shows a root of that snapshot: roots have other numbers now. */
void hx_ui_leave_roots(struct hx_ui *ui, int64_t snapshot);
hx_error *hx_ui_open_object(struct hx_ui *ui, uint64_t address);
/* A list of objects, or what is known of them: see enum hx_subset. */
hx_error *hx_ui_open_of(struct hx_ui *ui, const struct hx_screen *screen, const struct hx_of *of);
/* Those that a row stands for; a screen's open(). */
hx_error *hx_ui_open_objects(struct hx_ui *ui, struct hx_pane *pane, size_t row);
hx_error *hx_ui_open_text(struct hx_ui *ui, const struct hx_screen *screen, const char *text,
                          int64_t id);

/* Says something on the status line; errors are kept in the messages too. */
void hx_ui_say(struct hx_ui *ui, const char *format, ...) __attribute__((format(printf, 2, 3)));
void hx_ui_complain(struct hx_ui *ui, hx_error *error); /* takes the error; NULL is legal */

/* screen_objects.c: the set of objects that a pane is about */
struct hx_of hx_pane_of(const struct hx_pane *pane);
/* "Objects of type Node": for titles. */
void hx_pane_put_subset(const struct hx_pane *pane, bool ascii, struct hx_text *ret);

/* screen_tree.c: so many levels more, or fewer */
hx_error *hx_ui_tree_levels(struct hx_ui *ui, struct hx_pane *pane, int more);

/* screen_histogram.c: by that word, or by the next one ("") */
hx_error *hx_histogram_by(struct hx_ui *ui, struct hx_pane *pane, const char *word);
/* request.c: opens something of the object that the row under the cursor is about: its own, that of
 * an object's own screen, else the largest of those that it stands for */
hx_error *hx_ui_for_object(struct hx_ui *ui, hx_error *(*open)(struct hx_ui *, uint64_t));
/* screen_object.c: who holds it, in which round, and what its words look like; nothing where that
 * is not known */
void hx_ui_put_held(const struct hx_table *facts, bool ascii, struct hx_text *ret);
/* screen_details.c: figures of the word at an offset of an object, for hx_rule_put(); asks the
 * store */
struct hx_word_figures;
hx_error *hx_ui_word_figures(hx_store *store, int64_t snapshot, uint64_t address, int64_t offset,
                             struct hx_word_figures *ret);
/* screen_root.c: who has the name of a root without one, the nearest symbol, and what it reaches;
 * nothing where it needs no such hints. */
void hx_ui_put_hints(const struct hx_table *facts, bool ascii, struct hx_text *ret);
/* Says that the largest rows, of `least` bytes, have no names, where it is so; they are in that
 * column. */
void hx_ui_put_nameless(const struct hx_pane *pane, const char *column, int64_t least, bool ascii,
                        struct hx_text *ret);
/* screen_stack.c: of the frames of a stack the innermost ones of the program, at most so
 * many: "put at cache.c:41 < main at main.c:7". Returns how many; 0: nothing was recorded. */
size_t hx_frames_put(const struct hx_table *frames, size_t most, const char *between, bool ascii,
                     struct hx_text *ret);
/* screen_dominated.c: the columns of any level; ends with name NULL */
extern const struct hx_column hx_dominated_columns[];
/* screen_dominated.c: what the object at pane->address dominates immediately, or (0) what hangs
 * directly under the roots */
void hx_dominated_source(const struct hx_pane *pane, int64_t snapshot, struct hx_source *ret);
/* screen_dominators.c: one level down, or the object where there is none; a row that stands for no
 * object: all of this level */
hx_error *hx_ui_open_dominated(struct hx_ui *ui, struct hx_pane *pane, size_t row);

/* screen_sql.c: asks a statement, and shows the answer; a blank one: what there is to ask */
hx_error *hx_ui_ask(struct hx_ui *ui, const char *sql);
/* The row of an answer may be of another snapshot: goes there. */
void hx_ui_follow_row(struct hx_ui *ui, const struct hx_pane *pane, size_t row);

/* graph_cache.c: the graph of a stored snapshot, kept for the next question. On the WORK lane only.
 */
hx_error *hx_ui_graph(struct hx_ui *ui, hx_store *store, int64_t number,
                      const struct hx_progress *progress, struct hx_snapshot **ret);

/* The same with reverse edges, but of a large snapshot only what can be on chains to the object at
 * an address. Objects are numbered anew then, and the next call makes another one. */
hx_error *hx_ui_graph_about(struct hx_ui *ui, hx_store *store, int64_t number, uint64_t address,
                            const struct hx_progress *progress, struct hx_snapshot **ret);

/* screen_timeline.c: what nobody looks at any more need not be added up */
void hx_timeline_leave(struct hx_ui *ui);

/* snapshots.c */
/* The snapshot to compare the current one with; 0: there is none. */
int64_t hx_ui_other(const struct hx_ui *ui);
hx_error *hx_ui_load_snapshots(struct hx_ui *ui); /* starts a job */
void hx_ui_set_snapshot(struct hx_ui *ui, int64_t snapshot);
size_t hx_ui_snapshot_row(const struct hx_ui *ui); /* of the current one in ui->snapshots */
/* `asked`: by somebody who wants to hear of its end, not by the clock. */
hx_error *hx_ui_snap(struct hx_ui *ui, bool asked);
void hx_ui_tick(struct hx_ui *ui); /* --every */

/* screen_hex.c: the bytes of an object */
hx_error *hx_ui_open_hex(struct hx_ui *ui, uint64_t object);

/* resolve.c: opens the object that contains an address, or says that there is none */
hx_error *hx_ui_resolve(struct hx_ui *ui, uint64_t address,
                        hx_error *(*open)(struct hx_ui *ui, uint64_t object));

/* resolve.c: opens the largest object of a set, one that snapshot `other` has not where there is
 * such a one (0: whichever), or says that there is none */
hx_error *hx_ui_largest(struct hx_ui *ui, const struct hx_of *of, int64_t other,
                        hx_error *(*open)(struct hx_ui *ui, uint64_t object));

/* display.c */
/* The screen whose name stands in that column of the list of screens; NULL: none. */
const struct hx_screen *hx_ui_screen_at(const struct hx_ui *ui, int x);
/* The column of a list whose heading stands there; NULL: none. */
const struct hx_column *hx_pane_column_at(const struct hx_pane *pane, int x);
/* Appends why the current snapshot has no heap, and what to do. */
void hx_ui_put_no_heap(const struct hx_ui *ui, const char *between, struct hx_text *ret);
/* Appends a line that says what the current snapshot lacks, when it lacks something. */
void hx_ui_put_partial(const struct hx_ui *ui, struct hx_text *ret);
void hx_ui_draw(struct hx_ui *ui);
hx_error *hx_ui_save_display(struct hx_ui *ui, const char *path);

/* loop.c */
hx_error *hx_ui_loop(struct hx_ui *ui);
void hx_ui_key(struct hx_ui *ui, int key);
/* Takes ended jobs and waits for those under way, at most `ms` (-1: until all have ended). */
void hx_ui_settle(struct hx_ui *ui, int ms);

/* mouse.c: what the mouse did last */
void hx_ui_mouse(struct hx_ui *ui);

/* waiting.c: keys that are typed ahead */
/* Acts on a key, or keeps it until what it is about is there. */
void hx_ui_take_key(struct hx_ui *ui, int key);
/* Acts on the first of those that wait; false when it still has to, or none does. */
bool hx_ui_take_waiting(struct hx_ui *ui);
/* The last of those that wait was an Esc and is taken back. */
bool hx_ui_forget_escape(struct hx_ui *ui);

/* keep.c: snapshots that no file holds */
/* Quits, or asks what shall become of such snapshots. */
hx_error *hx_ui_leave(struct hx_ui *ui);
/* Starts a job that puts them into a file; `leave`: and quits then. */
hx_error *hx_ui_save(struct hx_ui *ui, const char *path, bool leave);
int64_t hx_ui_unsaved(const struct hx_ui *ui); /* how many */

/* script.c */
hx_error *hx_ui_script(struct hx_ui *ui, const char *path);

#endif
