/* object_name.h - SQL for what an object is called: its type, else its shape and, where a recorder
 * knows it, the function that allocated it. `o` is an alias of `objects`. */
#ifndef HX_STORE_QUERY_OBJECT_NAME_H
#define HX_STORE_QUERY_OBJECT_NAME_H

/* " from make_user", or "". */
#define HX_MAKER_OF(o)                                                                             \
    "coalesce((SELECT hx_maker(k.label)"                                                           \
    " FROM hx_stack k WHERE k.stack_id = " o ".stack_id AND k.label NOT GLOB '<*'), '')"

#define HX_OBJECT_NAME(o) "coalesce(" o ".type, " o ".shape || " HX_MAKER_OF(o) ")"

#endif
