/* code_flow.h - the code of a file in memory, and where it flows from an instruction on.
 *
 * A walk follows jumps and branches, not calls. Each instruction is looked at once in a walk, and
 * all walks through one file share a budget, so that any bytes end it.
 */
#ifndef HX_SYM_CODE_CODE_FLOW_H
#define HX_SYM_CODE_CODE_FLOW_H

#include "base/vec.h"
#include "sym/insn.h"

struct hx_code_file;
struct hx_reading;

/* An executable segment. */
struct hx_code_part {
    uint64_t start;
    uint8_t *bytes; /* owned */
    size_t n;
    uint8_t *seen; /* a bit for each byte */
};

/* Instructions one behind the other: [start, end), and what they lead to; 0: nowhere. */
struct hx_code_run {
    uint64_t start, end, next[2];
    bool arrives; /* ends where the walk wanted to go, or leads to a run that does */
};

struct hx_code_flow {
    HX_VEC(struct hx_code_part) parts;
    HX_VEC(struct hx_code_run) runs; /* of the last walk, by start */
    HX_VEC(uint64_t) pending, marked;
    struct hx_reading *reading; /* ends the walks, too */
    uint64_t budget;            /* instructions that may still be looked at */
};

/* What a walk does at an instruction. */
enum hx_code_turn {
    HX_CODE_GO_ON,
    HX_CODE_STOP,   /* nothing follows it */
    HX_CODE_ARRIVE, /* here it wanted to go; nothing follows */
    HX_CODE_GO_TO,  /* goes on at *to, and nowhere else */
};
typedef enum hx_code_turn hx_code_visit(void *context, uint64_t at, const struct hx_insn *insn,
                                        uint64_t *to);

/* False: it has no code, or too much of it. */
bool hx_code_flow_open(struct hx_code_file *file, struct hx_reading *reading, int fd,
                       struct hx_code_flow *ret);
void hx_code_flow_close(struct hx_code_flow *flow);

/* The bytes from an address on to the end of their segment; NULL: no code is there. */
const uint8_t *hx_code_flow_bytes(const struct hx_code_flow *flow, uint64_t vaddr, size_t *ret_n);

bool hx_code_flow_insn(const struct hx_code_flow *flow, uint64_t vaddr, struct hx_insn *ret);

/* Fills in flow->runs. */
void hx_code_flow_walk(struct hx_code_flow *flow, uint64_t from, hx_code_visit *visit,
                       void *context);

/* Finds out which runs of the last walk lead to one that arrived. */
void hx_code_flow_arrivals(struct hx_code_flow *flow);

#endif
