/* vote.h - what most of a sequence are, without keeping it. */
#ifndef HX_BASE_VOTE_H
#define HX_BASE_VOTE_H

/* One more value: in the end `candidate` is the majority, if there is one, with at most votes less
 * than it has (R. S. Boyer, J. S. Moore, "MJRTY: A Fast Majority Vote Algorithm", 1991). votes
 * begins as 0. Evaluates its arguments several times. */
#define HX_VOTE(candidate, votes, value)                                                           \
    do {                                                                                           \
        if ((votes) == 0)                                                                          \
            (candidate) = (value);                                                                 \
        (votes) += (candidate) == (value) ? 1 : -1;                                                \
    } while (0)

#endif
