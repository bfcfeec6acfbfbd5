/* u_glib.c - a chat server with GLib: sessions in a hash table by name and one by number, rooms
 * with their members, a queue of requests, lists of names.
 *
 * Small pieces are slices: chunks of pages that GLib's allocator has, unless the environment
 * has G_SLICE=always-malloc. Fields of a GHashTable are those of GLib 2.74 and told only
 * where they fit.
 */
#include "u_tell.h"

#include <glib.h>
#include <link.h>
#include <pthread.h>

typedef struct {
    char *name;
    guint number;
    gboolean away;
    GString *out;
    GHashTable *properties;
    GList *rooms;        /* of Room */
    GSList *invitations; /* of char */
} Session;

typedef struct {
    char *topic;
    GPtrArray *members; /* of Session */
    GQueue history;     /* of GString */
    GList *bans;        /* of char */
} Room;

typedef struct {
    Session *from; /* NULL when it has gone */
    gint64 when;
    GString *text;
} Request;

enum { ROOMS = 240, SESSIONS = 5000, REQUESTS = 2500 };

static GHashTable *sessions;  /* name, session */
static GHashTable *by_number; /* number, session */
static GPtrArray *rooms;      /* all sessions are in the first */
static GQueue *requests;
static GList *recent; /* names of those who left, the last first */
static GString *log_text;
static GPtrArray *numbers; /* of those who are here, for who picks one */
static guint next_number = 1;

static void string_free(gpointer s)
{
    g_string_free(s, TRUE);
}

static void session_free(gpointer data)
{
    Session *s = data;
    g_free(s->name);
    g_string_free(s->out, TRUE);
    if (s->properties)
        g_hash_table_destroy(s->properties);
    g_list_free(s->rooms);
    g_slist_free_full(s->invitations, g_free);
    g_slice_free(Session, s);
}

static void room_free(gpointer data)
{
    Room *r = data;
    g_free(r->topic);
    g_ptr_array_free(r->members, TRUE);
    g_queue_clear_full(&r->history, string_free);
    g_list_free_full(r->bans, g_free);
    g_slice_free(Room, r);
}

static void request_free(gpointer data)
{
    Request *r = data;
    g_string_free(r->text, TRUE);
    g_slice_free(Request, r);
}

static Session *any_session(void)
{
    if (numbers->len == 0)
        return NULL;
    return g_hash_table_lookup(by_number, numbers->pdata[truth_random(numbers->len)]);
}

static Room *any_room(void)
{
    return rooms->pdata[truth_random(rooms->len)];
}

static void join(Session *s, Room *r)
{
    if (g_list_find(s->rooms, r))
        return;
    s->rooms = g_list_prepend(s->rooms, r);
    g_ptr_array_add(r->members, s);
}

static void part(Session *s, Room *r)
{
    s->rooms = g_list_remove(s->rooms, r);
    g_ptr_array_remove_fast(r->members, s);
}

static void login(void)
{
    Session *s = g_slice_new0(Session);
    s->number = next_number++;
    s->name = g_strdup_printf(s->number % 2 ? "u%u" : "visitor-from-the-web-%u", s->number);
    s->out = g_string_sized_new(32);
    join(s, rooms->pdata[0]);
    g_hash_table_insert(sessions, g_strdup(s->name), s);
    g_hash_table_insert(by_number, GUINT_TO_POINTER(s->number), s);
    g_ptr_array_add(numbers, GUINT_TO_POINTER(s->number));
}

static void logout(Session *s)
{
    while (s->rooms)
        part(s, s->rooms->data);
    for (GList *l = requests->head; l; l = l->next)
        if (((Request *)l->data)->from == s)
            ((Request *)l->data)->from = NULL;
    recent = g_list_prepend(recent, g_strdup(s->name));
    if (s->number % 512 == 0)
        for (GList *old = g_list_nth(recent, 1200), *next; old; old = next) {
            next = old->next;
            g_free(old->data);
            recent = g_list_delete_link(recent, old);
        }
    g_hash_table_remove(by_number, GUINT_TO_POINTER(s->number));
    g_ptr_array_remove_fast(numbers, GUINT_TO_POINTER(s->number));
    g_hash_table_remove(sessions, s->name);
}

static void say(Session *s, Room *r, int i)
{
    GString *line = g_string_new(s->name);
    g_string_append_printf(
        line, ": message %d %.*s", i, (int)truth_random(70),
        "that goes on for a while and says very little but says it at some length");
    g_queue_push_tail(&r->history, line);
    if (r->history.length > 50)
        g_string_free(g_queue_pop_head(&r->history), TRUE);
    for (guint k = 0; k < r->members->len && k < 4; k++) {
        Session *to = r->members->pdata[k];
        if (to->out->len < 1500)
            g_string_append(to->out, line->str);
    }
}

static void request(Session *s, int i)
{
    Request *r = g_slice_new(Request);
    r->from = s;
    r->when = i;
    r->text = g_string_new(NULL);
    g_string_printf(r->text, "WHOIS %s %d", s->name, i);
    g_queue_push_tail(requests, r);
    if (requests->length > REQUESTS)
        request_free(g_queue_pop_head(requests));
}

static void property(Session *s, int i)
{
    static const char *const names[] = {"language", "client", "time-zone-of-user", "avatar"};
    if (!s->properties)
        s->properties = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    g_hash_table_replace(s->properties, g_strdup(names[truth_random(4)]),
                         g_strdup_printf("value %d as set by %s", i, s->name));
    if (truth_random(6) == 0)
        g_hash_table_remove(s->properties, names[truth_random(4)]);
}

static void new_room(int i)
{
    Room *r = g_slice_new0(Room);
    r->topic = g_strdup_printf("room %d: of nothing in particular", i);
    r->members = g_ptr_array_new();
    g_queue_init(&r->history);
    g_ptr_array_add(rooms, r);
}

static void churn(void)
{
    sessions = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, session_free);
    by_number = g_hash_table_new(NULL, NULL);
    rooms = g_ptr_array_new_with_free_func(room_free);
    requests = g_queue_new();
    log_text = g_string_new("started\n");
    numbers = g_ptr_array_new();
    for (int i = 0; i < ROOMS; i++)
        new_room(i);
    for (int i = 0; i < 300000; i++) {
        Session *s = any_session();
        guint64 what = truth_random(1000);
        if (!s || (what < 60 && numbers->len < SESSIONS)) {
            login();
        } else if (what < 85) {
            logout(s);
        } else if (what < 200) {
            join(s, any_room());
        } else if (what < 240) {
            if (s->rooms && s->rooms->data != rooms->pdata[0])
                part(s, s->rooms->data);
        } else if (what < 420) {
            say(s, any_room(), i);
        } else if (what < 520) {
            g_string_truncate(s->out, 0);
        } else if (what < 620) {
            request(s, i);
        } else if (what < 720) {
            property(s, i);
        } else if (what < 740) {
            s->invitations = g_slist_prepend(s->invitations, g_strdup_printf("come to %d", i % 97));
            if (g_slist_length(s->invitations) > 5) {
                g_slist_free_full(s->invitations, g_free);
                s->invitations = NULL;
            }
        } else if (what < 750) {
            Room *r = any_room();
            r->bans = g_list_prepend(r->bans, g_strdup(s->name));
            if (g_list_length(r->bans) > 12)
                for (int k = 0; k < 6; k++) {
                    g_free(r->bans->data);
                    r->bans = g_list_delete_link(r->bans, r->bans);
                }
        } else if (what < 752) {
            g_string_append_printf(log_text, "%d %s\n", i, s->name);
        } else {
            Session *found = g_hash_table_lookup(sessions, s->name);
            found->away = !found->away;
        }
    }
}

/* --- truth -------------------------------------------------------------------------- */

/* A chunk of a slab is not a block of its own: only of a block all words can be told. */
static bool slices = true;

static void tell_slice(const struct tell_as *t, const void *p)
{
    tell_block(t, p);
    if (slices && t->own) /* GLib's lists of slabs lead there, too */
        truth_borrows(p, "glib");
}

static void tell_all_words(const struct tell_as *t, const void *slice)
{
    if (!slices)
        tell_words(t, slice);
}

struct fields {
    gsize size;
    gint mod;
    guint mask, nodes, occupied;
    guint big_keys : 1, big_values : 1;
    gpointer *keys;
    guint *hashes;
    gpointer *values;
};

static void tell_table(const struct tell_as *t, GHashTable *table)
{
    const struct fields *f = (const struct fields *)table;
    tell_slice(t, table);
    if (!glib_check_version(2, 76, 0) || f->nodes != g_hash_table_size(table))
        return;
    tell_word(t, &f->keys);
    tell_word(t, &f->hashes);
    tell_word(t, &f->values);
    tell_all_words(t, table);
    tell_block(t, f->keys);
    tell_block(t, f->hashes);
    tell_block(t, f->values);
    for (gsize i = 0; i < f->size; i++)
        if (f->hashes[i] >= 2) {
            if (f->big_keys)
                tell_word(t, &f->keys[i]);
            if (f->big_values)
                tell_word(t, &f->values[i]);
        }
    tell_words(t, f->keys);
    tell_words(t, f->values);
}

static void tell_list(const struct tell_as *t, const GList *l)
{
    for (; l; l = l->next) {
        tell_slice(t, l);
        tell_word(t, &l->data);
        tell_word(t, &l->next);
        tell_word(t, &l->prev);
        tell_all_words(t, l);
    }
}

static void tell_string(const struct tell_as *t, const GString *s)
{
    tell_slice(t, s);
    tell_word(t, &s->str);
    tell_all_words(t, s);
    tell_block(t, s->str);
}

static void tell_array(const struct tell_as *t, const GPtrArray *a, bool pointers)
{
    tell_slice(t, a);
    tell_word(t, &a->pdata);
    tell_all_words(t, a);
    tell_block(t, a->pdata);
    for (guint i = 0; pointers && i < a->len; i++)
        tell_word(t, &a->pdata[i]);
    tell_words(t, a->pdata);
}

static void tell_session(const struct tell_as *t, const Session *s)
{
    tell_slice(t, s);
    tell_block(t, s->name);
    tell_word(t, &s->name);
    tell_word(t, &s->out);
    tell_string(t, s->out);
    tell_word(t, &s->properties);
    tell_word(t, &s->rooms);
    tell_list(t, s->rooms);
    tell_word(t, &s->invitations);
    tell_all_words(t, s);
    for (const GSList *l = s->invitations; l; l = l->next) {
        tell_slice(t, l);
        tell_word(t, &l->data);
        tell_word(t, &l->next);
        tell_all_words(t, l);
        tell_block(t, l->data);
    }
    if (!s->properties)
        return;
    GHashTableIter iter;
    gpointer key, value;
    tell_table(t, s->properties);
    g_hash_table_iter_init(&iter, s->properties);
    while (g_hash_table_iter_next(&iter, &key, &value)) {
        tell_block(t, key);
        tell_block(t, value);
    }
}

static void tell_sessions(const struct tell_as *t)
{
    GHashTableIter iter;
    gpointer key, value;
    g_hash_table_iter_init(&iter, sessions);
    while (g_hash_table_iter_next(&iter, &key, &value))
        tell_session(t, value);
}

static void tell_room(const struct tell_as *t, const Room *r)
{
    tell_slice(t, r);
    tell_block(t, r->topic);
    tell_word(t, &r->topic);
    tell_word(t, &r->members);
    tell_array(t, r->members, true);
    tell_word(t, &r->history.head);
    tell_word(t, &r->history.tail);
    tell_list(t, r->history.head);
    for (const GList *l = r->history.head; l; l = l->next)
        tell_string(t, l->data);
    tell_word(t, &r->bans);
    tell_list(t, r->bans);
    for (const GList *l = r->bans; l; l = l->next)
        tell_block(t, l->data);
    tell_all_words(t, r);
}

/* Those that a session leads to: the first, where all are, leads to all sessions. */
static void tell_visited_rooms(const struct tell_as *t)
{
    for (guint i = 0; i < rooms->len; i++)
        if (((Room *)rooms->pdata[i])->members->len > 0)
            tell_room(t, rooms->pdata[i]);
}

/* The data of the library, where its allocator has the slabs. */
static int find_glib(struct dl_phdr_info *info, size_t size, void *data)
{
    uintptr_t code = (uintptr_t)g_slice_alloc;
    bool here = false;
    (void)size;
    (void)data;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t at = info->dlpi_addr + p->p_vaddr;
        here = here || (p->p_type == PT_LOAD && code >= at && code < at + p->p_memsz);
        if (here && p->p_type == PT_LOAD && p->p_flags & PF_W)
            tell_root("glib", (void *)at, p->p_memsz);
    }
    return here;
}

/* Free chunks that this thread keeps for the next who wants one: as GLib 2.74 has them, two arrays
 * of magazines behind their pointers. */
struct chunk {
    struct chunk *next;
};
struct magazine {
    struct chunk *chunks;
    gsize count;
};
struct magazines {
    struct magazine *current, *other;
    struct magazine of_size[];
};

static const struct magazines *find_magazines(void)
{
    for (unsigned key = 0; key < 32; key++) {
        const struct magazines *m = pthread_getspecific((pthread_key_t)key);
        /* at the start of a page: a mapping, no block */
        if ((uintptr_t)m % 4096 != 0 && m->current == m->of_size)
            return m;
    }
    return NULL;
}

static void tell_magazines(void)
{
    const struct magazines *m = find_magazines();
    const void *const *slot = (const void *const *)pthread_self();
    if (!m)
        return;
    for (unsigned i = 0; i < 256; i++, slot++) /* a thread's first keys are in its descriptor */
        if (*slot == m)
            break;
    if (*slot != m)
        return;
    struct tell_as t = {"thread", true, true};
    tell_root("thread", slot, sizeof *slot);
    tell_word(&t, slot);
    tell_block(&t, m);
    tell_word(&t, &m->current);
    tell_word(&t, &m->other);
    for (const struct magazine *of = m->of_size; of < m->other + (m->other - m->current); of++) {
        tell_word(&t, &of->chunks);
        for (const struct chunk *c = of->chunks; c; c = c->next) {
            truth_borrows(c, "thread");
            tell_word(&t, &c->next);
        }
    }
    tell_words(&t, m);
}

static void tell(void *of)
{
    (void)of;
    const char *how = getenv("G_SLICE");
    slices = glib_check_version(2, 76, 0) && !(how && strstr(how, "always-malloc"));
    TELL_ROOT(sessions);
    TELL_ROOT(by_number);
    TELL_ROOT(rooms);
    TELL_ROOT(requests);
    TELL_ROOT(recent);
    TELL_ROOT(log_text);
    TELL_ROOT(numbers);
    if (slices) {
        dl_iterate_phdr(find_glib, NULL);
        tell_magazines();
    }

    GHashTableIter iter;
    gpointer key, value;
    struct tell_as t = {"sessions", true, true};
    tell_word(&t, &sessions);
    tell_table(&t, sessions);
    g_hash_table_iter_init(&iter, sessions);
    while (g_hash_table_iter_next(&iter, &key, &value))
        tell_block(&t, key);
    tell_sessions(&t);
    t.own = t.words = false;
    tell_visited_rooms(&t);

    t = (struct tell_as){"by_number", true, true};
    tell_word(&t, &by_number);
    tell_table(&t, by_number);
    t.own = t.words = false;
    tell_sessions(&t);
    tell_visited_rooms(&t);

    t = (struct tell_as){"rooms", true, true};
    tell_word(&t, &rooms);
    tell_array(&t, rooms, true);
    for (guint i = 0; i < rooms->len; i++)
        tell_room(&t, rooms->pdata[i]);
    t.own = t.words = false;
    tell_sessions(&t);

    bool from_some = false;
    t = (struct tell_as){"requests", true, true};
    tell_word(&t, &requests);
    tell_slice(&t, requests);
    tell_word(&t, &requests->head);
    tell_word(&t, &requests->tail);
    tell_all_words(&t, requests);
    tell_list(&t, requests->head);
    for (const GList *l = requests->head; l; l = l->next) {
        const Request *r = l->data;
        tell_slice(&t, r);
        tell_word(&t, &r->from);
        tell_word(&t, &r->text);
        tell_string(&t, r->text);
        tell_all_words(&t, r);
        from_some = from_some || r->from;
    }
    t.own = t.words = false;
    if (from_some) {
        tell_sessions(&t);
        tell_visited_rooms(&t);
    }

    t = (struct tell_as){"recent", true, true};
    tell_word(&t, &recent);
    tell_list(&t, recent);
    for (const GList *l = recent; l; l = l->next)
        tell_block(&t, l->data);

    t = (struct tell_as){"log_text", true, true};
    tell_word(&t, &log_text);
    tell_string(&t, log_text);

    t = (struct tell_as){"numbers", true, true};
    tell_word(&t, &numbers);
    tell_array(&t, numbers, false);
}

int main(int argc, char **argv)
{
    churn();
    truth_rest(argc, argv, tell, NULL);
    return 0;
}
