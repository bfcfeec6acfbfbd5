/* type_cache.c - the folder, its files, and how much of them is kept. */
#include "sym/types/type_cache.h"

#include "base/folder.h"
#include "base/pin.h"
#include "base/vec.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#define MAGIC       UINT64_C(0x3330656863617848) /* changes when head does, or what is read */
#define KEY         "key"
#define NEW         ".new-"
#define TABLE_MAX   ((uint64_t)256 << 20) /* bytes of one */
#define FOLDER_MAX  ((uint64_t)1 << 30)
#define FILES_MAX   4096
#define SWEEP_GAP   ((uint64_t)64 << 20)
#define CHUNK       ((uint64_t)1 << 18)
#define SUMS        4                /* at a time */
#define LEAST_COUNT ((uint64_t)4096) /* what a small file takes */

/* What a file begins with. `sum` is of all that is before it, and of what follows. */
struct head {
    uint64_t magic, kind;
    struct hx_hash128 name;
    uint64_t bytes; /* that follow */
    uint64_t sum;
};

typedef char file_name[48];

void hx_type_cache_hash(const struct hx_type_cache *cache, enum hx_type_cached of,
                        struct hx_siphash *ret)
{
    hx_siphash_begin(ret, cache->key);
    hx_siphash_number(ret, of);
}

/* --- files ----------------------------------------------------------------------- */

static const char *const ending[] = {
    [HX_CACHED_TABLE] = ".types",
    [HX_CACHED_HASH] = ".hash",
};

static void put_name(enum hx_type_cached kind, struct hx_hash128 name, file_name ret)
{
    snprintf(ret, sizeof(file_name), "%016" PRIx64 "%016" PRIx64 "%s", name.word[0], name.word[1],
             ending[kind]);
}

/* Nobody else writes here, so it is against accidents only, and quick. No one word can change
 * without it: each step can be taken back. */
struct sum {
    uint64_t v[SUMS];
};

static inline void add_words(struct sum *sum, const void *from)
{
    uint64_t word[SUMS];
    memcpy(word, from, sizeof word);
    for (size_t i = 0; i < SUMS; i++) {
        sum->v[i] = (sum->v[i] ^ word[i]) * UINT64_C(0x9e3779b97f4a7c15);
        sum->v[i] ^= sum->v[i] >> 32;
    }
}

static struct sum add_to_sum(struct sum sum, const void *from, uint64_t n)
{
    const char *at = from;
    char rest[sizeof sum] = {0};
    for (; n >= sizeof rest; at += sizeof rest, n -= sizeof rest)
        add_words(&sum, at);
    memcpy(rest, at, n);
    if (n)
        add_words(&sum, rest);
    return sum;
}

static struct sum begin_sum(const struct head *head)
{
    return add_to_sum((struct sum){{1, 2, 3, 4}}, head, offsetof(struct head, sum));
}

static uint64_t end_sum(struct sum sum)
{
    return sum.v[0] + 3 * sum.v[1] + 5 * sum.v[2] + 7 * sum.v[3];
}

/* A plain file that nobody else can write, nor could. */
static int open_own(int folder, const char *name, uint64_t most, uint64_t *ret_size)
{
    struct stat st;
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
        (st.st_mode & 07777) == 0600 && st.st_nlink == 1 && (uint64_t)st.st_size <= most) {
        *ret_size = (uint64_t)st.st_size;
        return fd;
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

static bool read_all(int fd, void *to, uint64_t n, uint64_t offset)
{
    for (uint64_t at = 0; at < n;) {
        ssize_t got = pread(fd, (char *)to + at, n - at, (off_t)(offset + at));
        if (got <= 0)
            return false;
        at += (uint64_t)got;
    }
    return true;
}

static bool write_all(int fd, const void *from, uint64_t n)
{
    for (uint64_t at = 0; at < n;) {
        ssize_t put = write(fd, (const char *)from + at, n - at);
        if (put <= 0)
            return false;
        at += (uint64_t)put;
    }
    return true;
}

/* It has its name when it is complete; one that has the name gives way. */
static bool write_file(int folder, const char *name, const struct head *head, const void *content,
                       uint64_t bytes)
{
    file_name made;
    uint64_t random;
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random)
        return false;
    snprintf(made, sizeof made, NEW "%016" PRIx64, random);
    HX_FD int fd = openat(folder, made, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    if ((!head || write_all(fd, head, sizeof *head)) && write_all(fd, content, bytes) &&
        renameat(folder, made, folder, name) == 0)
        return true;
    unlinkat(folder, made, 0);
    return false;
}

/* What follows the head of a file that is sound; NULL: it is not. */
static void *read_sound(enum hx_type_cached kind, struct hx_hash128 name, int fd, uint64_t size)
{
    struct head head;
    if (size < sizeof head || !read_all(fd, &head, sizeof head, 0) || head.magic != MAGIC ||
        head.kind != kind || memcmp(&head.name, &name, sizeof name) != 0 ||
        head.bytes != size - sizeof head)
        return NULL;
    HX_FREE char *content = malloc(head.bytes + 1);
    struct sum sum = begin_sum(&head);
    for (uint64_t at = 0, n; content && at < head.bytes; at += n) { /* while it is in the cache */
        n = head.bytes - at < CHUNK ? head.bytes - at : CHUNK;
        if (!read_all(fd, content + at, n, sizeof head + at))
            return NULL;
        sum = add_to_sum(sum, content + at, n);
    }
    return content && end_sum(sum) == head.sum ? hx_steal(content) : NULL;
}

static void *get(const struct hx_type_cache *cache, enum hx_type_cached kind,
                 struct hx_hash128 name, uint64_t *ret_bytes)
{
    file_name file;
    uint64_t size = 0;
    put_name(kind, name, file);
    errno = 0;
    HX_FD int fd = open_own(cache->folder, file, TABLE_MAX + sizeof(struct head), &size);
    if (fd < 0 && errno == ENOENT)
        return NULL;
    void *content = fd >= 0 ? read_sound(kind, name, fd, size) : NULL;
    if (content)
        futimens(fd, NULL); /* the oldest go first */
    else
        unlinkat(cache->folder, file, 0);
    *ret_bytes = size - sizeof(struct head);
    return content;
}

/* --- how much is kept ------------------------------------------------------------ */

struct kept {
    char name[NAME_MAX + 1];
    struct timespec used;
    uint64_t bytes;
};
typedef HX_VEC(struct kept) kept_files;

static bool is_of_cache(const char *name)
{
    const char *end = strrchr(name, '.');
    return strncmp(name, NEW, strlen(NEW)) == 0 ||
           (end && (strcmp(end, ending[HX_CACHED_TABLE]) == 0 ||
                    strcmp(end, ending[HX_CACHED_HASH]) == 0));
}

static uint64_t list_files(int folder, kept_files *ret)
{
    uint64_t bytes = 0;
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        hx_cleanup_fd(&fd);
        return 0;
    }
    for (struct dirent *entry; (entry = readdir(dir));) {
        struct stat st;
        struct kept kept = {0};
        if (!is_of_cache(entry->d_name) ||
            fstatat(folder, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        memcpy(kept.name, entry->d_name, strlen(entry->d_name));
        kept.used = st.st_mtim;
        kept.bytes = (uint64_t)st.st_size > LEAST_COUNT ? (uint64_t)st.st_size : LEAST_COUNT;
        bytes += kept.bytes;
        if (!hx_vec_push(ret, kept))
            break;
    }
    closedir(dir);
    return bytes;
}

static int compare_ages(const void *a, const void *b)
{
    const struct kept *x = a, *y = b;
    if (x->used.tv_sec != y->used.tv_sec)
        return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    return x->used.tv_nsec < y->used.tv_nsec ? -1 : x->used.tv_nsec > y->used.tv_nsec;
}

/* Removes the files that were not used for longest. */
static void sweep(const struct hx_type_cache *cache)
{
    kept_files files = {0};
    uint64_t bytes = list_files(cache->folder, &files), n = files.n;
    if (bytes > cache->max_bytes || n > cache->max_files)
        qsort(files.v, files.n, sizeof *files.v, compare_ages);
    for (size_t i = 0; i < files.n && (bytes > cache->max_bytes || n > cache->max_files); i++) {
        unlinkat(cache->folder, files.v[i].name, 0);
        bytes -= files.v[i].bytes;
        n--;
    }
    hx_vec_free(&files);
}

static void put(struct hx_type_cache *cache, enum hx_type_cached kind, struct hx_hash128 name,
                const void *content, uint64_t bytes)
{
    file_name file;
    struct head head = {.magic = MAGIC, .kind = kind, .name = name, .bytes = bytes};
    if (cache->folder < 0 || bytes > TABLE_MAX || bytes > cache->max_bytes)
        return;
    head.sum = end_sum(add_to_sum(begin_sum(&head), content, bytes));
    put_name(kind, name, file);
    if (!write_file(cache->folder, file, &head, content, bytes))
        return;
    const uint64_t taken = bytes > LEAST_COUNT ? bytes : LEAST_COUNT;
    if (taken <= cache->until_sweep) {
        cache->until_sweep -= taken;
        return;
    }
    sweep(cache);
    cache->until_sweep = SWEEP_GAP;
}

/* --- what is kept ---------------------------------------------------------------- */

bool hx_type_cache_get(const struct hx_type_cache *cache, struct hx_hash128 name,
                       struct hx_type_table *ret, void **ret_block)
{
    uint64_t bytes;
    HX_FREE void *block = cache->folder >= 0 ? get(cache, HX_CACHED_TABLE, name, &bytes) : NULL;
    if (!block)
        return false;
    hx_error *err = hx_type_table_open(block, bytes, ret);
    if (err) { /* of a heapx that was wrong */
        file_name file;
        put_name(HX_CACHED_TABLE, name, file);
        unlinkat(cache->folder, file, 0);
        hx_error_free(err);
        return false;
    }
    *ret_block = hx_steal(block);
    return true;
}

void hx_type_cache_put(struct hx_type_cache *cache, struct hx_hash128 name,
                       const struct hx_type_table *table)
{
    put(cache, HX_CACHED_TABLE, name, table->memory, table->bytes);
}

bool hx_type_cache_get_hash(const struct hx_type_cache *cache, struct hx_hash128 name,
                            struct hx_hash128 *ret)
{
    uint64_t bytes;
    HX_FREE void *content = cache->folder >= 0 ? get(cache, HX_CACHED_HASH, name, &bytes) : NULL;
    if (!content || bytes != sizeof *ret)
        return false;
    memcpy(ret, content, sizeof *ret);
    return true;
}

void hx_type_cache_put_hash(struct hx_type_cache *cache, struct hx_hash128 name,
                            struct hx_hash128 hash)
{
    put(cache, HX_CACHED_HASH, name, &hash, sizeof hash);
}

/* --- the folder ------------------------------------------------------------------ */

static bool is_ours(int folder)
{
    struct stat st;
    return fstat(folder, &st) == 0 && st.st_uid == geteuid();
}

/* The folder of all caches; what is missing is its last name at most. sudo may leave another user's
 * HOME: nothing is put there. */
static int open_caches(void)
{
    const char *given = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    HX_PIN struct hx_pin pin = HX_PIN_NONE;
    HX_FREE char *path = NULL;
    const bool is_given = given && *given == '/';
    if ((!is_given && (!home || *home != '/')) ||
        asprintf(&path, "%s%s", is_given ? given : home, is_given ? "" : "/.cache") < 0) {
        path = NULL;
        return -1;
    }
    hx_error *err = hx_pin(path, &pin);
    hx_error_free(err);
    if (err || pin.doubt || !is_ours(pin.folder))
        return -1;
    if (strcmp(pin.name, ".") != 0)
        mkdirat(pin.folder, pin.name, 0700);
    int fd = openat(pin.folder, pin.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && is_ours(fd))
        return fd;
    hx_cleanup_fd(&fd);
    return -1;
}

static bool read_key(int folder, uint64_t key[2])
{
    uint64_t size = 0;
    HX_FD int fd = open_own(folder, KEY, 2 * sizeof *key, &size);
    return fd >= 0 && size == 2 * sizeof *key && read_all(fd, key, size, 0);
}

/* Of two who make one at the same time the later one's is used by all that come. */
static bool make_key(int folder, uint64_t key[2])
{
    uint64_t made[2];
    return getrandom(made, sizeof made, GRND_NONBLOCK) == sizeof made &&
           write_file(folder, KEY, NULL, made, sizeof made) && read_key(folder, key);
}

bool hx_type_cache_open(struct hx_type_cache *ret)
{
    struct stat st;
    HX_FD int caches = open_caches();
    if (caches < 0)
        return false;
    mkdirat(caches, "heapx", 0700);
    HX_TYPE_CACHE struct hx_type_cache cache = {
        .folder = openat(caches, "heapx", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
        .max_bytes = FOLDER_MAX,
        .max_files = FILES_MAX};
    if (cache.folder < 0 || !hx_folder_is_private(cache.folder, &st) ||
        (!read_key(cache.folder, cache.key) && !make_key(cache.folder, cache.key)))
        return false;
    *ret = cache;
    cache.folder = -1;
    return true;
}

void hx_type_cache_close(struct hx_type_cache *cache)
{
    hx_cleanup_fd(&cache->folder);
    *cache = HX_TYPE_CACHE_NONE;
}
