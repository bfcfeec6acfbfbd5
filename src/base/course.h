/* course.h - how far work of many stages is as a whole, from 0 to 1, and how long it still takes.
 *
 * A table says which stages there are, in their order, and what they cost; each tells where it is
 * by hx_progress_at(), under the name that it has there. What it costs is the table's figure for
 * one of a size (a byte, say), times as many as there are, as far as that is known yet, times how
 * much longer than by the table the work took so far: so shares are those of time. The share never
 * falls. A stage that does not come costs nothing once a later one has begun.
 */
#ifndef HX_BASE_COURSE_H
#define HX_BASE_COURSE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HX_COURSE_STAGES = 64, HX_COURSE_SIZES = 4 };

struct hx_stage {
    const char *name; /* several may have the same: the next one of that name is meant */
    unsigned parts;   /* of work that this stage belongs to: one bit */
    uint8_t size;     /* the size that its cost grows with; 0: none, ns is all of it */
    uint8_t tells;    /* the size that its total is; 0: none */
    uint8_t times;    /* so often it begins at 0; 0: it is no stage, and only tells a size */
    bool beside;      /* done while those before it are, where work is done side by side */
    double ns;        /* for one, with all its times */
};

struct hx_stages {
    const struct hx_stage *stage;
    size_t n;                      /* at most HX_COURSE_STAGES */
    double guess[HX_COURSE_SIZES]; /* a size that is not known, for one of the size before it */
};

struct hx_course {
    pthread_mutex_t lock;           /* over all below */
    const struct hx_stages *stages; /* NULL: there is no such work */
    unsigned parts, now;            /* all that shall be done; what is being done */
    bool beside;
    size_t at[2]; /* the stage, of those beside others, too; stages->n: none yet */
    double done[HX_COURSE_STAGES];
    uint8_t begun[HX_COURSE_STAGES];
    uint64_t size[HX_COURSE_SIZES]; /* 0: not known */
    uint64_t seen[HX_COURSE_SIZES]; /* so far */
    uint64_t began_ns, told_ns[2];
    uint64_t apart_ns; /* spent on what grows with no size */
    double share;
    double left_s; /* as it was shown; < 0: not yet */
    uint64_t left_ns;
};

void hx_course_init(struct hx_course *course);
void hx_course_deinit(struct hx_course *course);

/* From here on `now` (bits of the stages) is done, of the work `parts`; 0: of that under way, of
 * which the parts so far have come to their end. */
void hx_course_begin(struct hx_course *course, const struct hx_stages *stages, unsigned parts,
                     unsigned now, bool beside, uint64_t now_ns);
void hx_course_end(struct hx_course *course);

/* A name that no stage has is nothing. */
void hx_course_at(struct hx_course *course, const char *stage, uint64_t done, uint64_t total,
                  uint64_t now_ns);

struct hx_course_look {
    const char *stage;              /* the table's; "": none yet */
    double share;                   /* 0 to 1 */
    double left_s;                  /* < 0: nobody knows yet */
    uint64_t seen[HX_COURSE_SIZES]; /* what is known of the sizes so far; 0: nothing */
};

/* False: no such work is under way. */
bool hx_course_look(struct hx_course *course, uint64_t now_ns, struct hx_course_look *ret);

#endif
