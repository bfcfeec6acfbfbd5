/* records_other.c - another struct of a name that records.c has, and one that is only declared
 * there.
 */
#include "note.h"
#include "records.h"

struct same {
    struct same *left;
    struct same *right;
    double weight[4];
};
struct opaque {
    struct opaque *next;
    struct same *tree;
    unsigned char state[30];
};
static struct same *kept;

struct opaque *make_opaque(unsigned long n)
{
    struct opaque *first = NULL;
    while (n--) {
        struct opaque *opaque = note(calloc(1, sizeof *opaque), "opaque", 1);
        struct same *same = note(calloc(1, sizeof *same), "same", 1);
        same->left = kept;
        kept = note(calloc(1, sizeof *kept), "same", 1);
        opaque->next = first;
        opaque->tree = same;
        first = opaque;
    }
    return first;
}
