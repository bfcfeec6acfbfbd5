/* u_sched.c - a scheduler in the style of a kernel: tasks on intrusive lists and in a hash of pids,
 * those that can run in a red-black tree for each processor, timers in a wheel, open files
 * that lead to inodes of a cache. Task structures are used again.
 */
#include "u_tell.h"

#include <stddef.h>
#include <stdio.h>

/* --- lists, hashes, trees ----------------------------------------------------------- */

#define container_of(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

struct list_head {
    struct list_head *next, *prev;
};

#define LIST_HEAD_INIT(name)                                                                       \
    {                                                                                              \
        &(name), &(name)                                                                           \
    }
#define list_for_each(at, head) for (at = (head)->next; at != (head); at = at->next)

static void INIT_LIST_HEAD(struct list_head *l)
{
    l->next = l->prev = l;
}

static void list_add_tail(struct list_head *l, struct list_head *head)
{
    l->next = head;
    l->prev = head->prev;
    head->prev->next = l;
    head->prev = l;
}

static void list_del_init(struct list_head *l)
{
    l->next->prev = l->prev;
    l->prev->next = l->next;
    INIT_LIST_HEAD(l);
}

static bool list_empty(const struct list_head *l)
{
    return l->next == l;
}

struct hlist_node {
    struct hlist_node *next, **pprev;
};
struct hlist_head {
    struct hlist_node *first;
};

static void hlist_add_head(struct hlist_node *n, struct hlist_head *h)
{
    n->next = h->first;
    if (n->next)
        n->next->pprev = &n->next;
    h->first = n;
    n->pprev = &h->first;
}

static void hlist_del(struct hlist_node *n)
{
    *n->pprev = n->next;
    if (n->next)
        n->next->pprev = n->pprev;
}

/* The colour is in the lowest bit of the parent: 1 is black. */
struct rb_node {
    uintptr_t parent_color;
    struct rb_node *right, *left;
};
struct rb_root {
    struct rb_node *node;
};

static struct rb_node *rb_parent(const struct rb_node *n)
{
    return (struct rb_node *)(n->parent_color & ~(uintptr_t)1);
}
static bool rb_black(const struct rb_node *n)
{
    return !n || n->parent_color & 1;
}
static void rb_set_parent(struct rb_node *n, struct rb_node *parent)
{
    n->parent_color = (uintptr_t)parent | (n->parent_color & 1);
}
static void rb_set_black(struct rb_node *n, bool black)
{
    n->parent_color = (n->parent_color & ~(uintptr_t)1) | black;
}

static void rb_replace(struct rb_root *root, struct rb_node *old, struct rb_node *new)
{
    struct rb_node *parent = rb_parent(old);
    if (!parent)
        root->node = new;
    else if (parent->left == old)
        parent->left = new;
    else
        parent->right = new;
    if (new)
        rb_set_parent(new, parent);
}

static void rb_rotate(struct rb_root *root, struct rb_node *n, bool to_left)
{
    struct rb_node *up = to_left ? n->right : n->left;
    struct rb_node *moved = to_left ? up->left : up->right;
    rb_replace(root, n, up);
    *(to_left ? &n->right : &n->left) = moved;
    if (moved)
        rb_set_parent(moved, n);
    *(to_left ? &up->left : &up->right) = n;
    rb_set_parent(n, up);
}

/* After *link was set to n, below `parent`. */
static void rb_insert(struct rb_root *root, struct rb_node *n, struct rb_node *parent,
                      struct rb_node **link)
{
    n->parent_color = (uintptr_t)parent;
    n->left = n->right = NULL;
    *link = n;
    while ((parent = rb_parent(n)) && !rb_black(parent)) {
        struct rb_node *grand = rb_parent(parent);
        bool left = parent == grand->left;
        struct rb_node *uncle = left ? grand->right : grand->left;
        if (!rb_black(uncle)) {
            rb_set_black(uncle, true);
            rb_set_black(parent, true);
            rb_set_black(grand, false);
            n = grand;
            continue;
        }
        if (n == (left ? parent->right : parent->left)) {
            rb_rotate(root, parent, left);
            n = parent;
            parent = rb_parent(n);
        }
        rb_set_black(parent, true);
        rb_set_black(grand, false);
        rb_rotate(root, grand, !left);
    }
    rb_set_black(root->node, true);
}

static void rb_erase(struct rb_root *root, struct rb_node *n)
{
    struct rb_node *child, *parent;
    bool black;
    if (n->left && n->right) {
        struct rb_node *next = n->right;
        while (next->left)
            next = next->left;
        child = next->right;
        parent = rb_parent(next);
        black = rb_black(next);
        if (parent == n) {
            parent = next;
        } else {
            parent->left = child;
            if (child)
                rb_set_parent(child, parent);
            next->right = n->right;
            rb_set_parent(n->right, next);
        }
        next->left = n->left;
        rb_set_parent(n->left, next);
        rb_replace(root, n, next);
        rb_set_black(next, rb_black(n));
    } else {
        child = n->left ? n->left : n->right;
        parent = rb_parent(n);
        black = rb_black(n);
        rb_replace(root, n, child);
    }
    if (!black)
        return;
    while (child != root->node && rb_black(child)) {
        bool left = child == parent->left;
        struct rb_node *sibling = left ? parent->right : parent->left;
        if (!rb_black(sibling)) {
            rb_set_black(sibling, true);
            rb_set_black(parent, false);
            rb_rotate(root, parent, left);
            sibling = left ? parent->right : parent->left;
        }
        struct rb_node *far = left ? sibling->right : sibling->left;
        struct rb_node *near = left ? sibling->left : sibling->right;
        if (rb_black(far) && rb_black(near)) {
            rb_set_black(sibling, false);
            child = parent;
            parent = rb_parent(child);
            continue;
        }
        if (rb_black(far)) {
            rb_set_black(near, true);
            rb_set_black(sibling, false);
            rb_rotate(root, sibling, !left);
            sibling = left ? parent->right : parent->left;
            far = left ? sibling->right : sibling->left;
        }
        rb_set_black(sibling, rb_black(parent));
        rb_set_black(parent, true);
        rb_set_black(far, true);
        rb_rotate(root, parent, left);
        break;
    }
    if (child)
        rb_set_black(child, true);
}

/* --- tasks -------------------------------------------------------------------------- */

struct inode {
    struct hlist_node hash;
    struct list_head lru;
    uint64_t number;
    unsigned uses;
    char *name;
    void *pages[12];
};

struct file {
    struct inode *inode;
    uint64_t position;
    unsigned uses, mode;
};

struct files {
    unsigned uses, size;
    struct file **fd;
};

struct vma {
    struct rb_node node;
    struct list_head list;
    uint64_t start, end;
};

struct mm {
    unsigned uses;
    struct rb_root tree;
    struct list_head vmas;
};

enum state { RUNNING, SLEEPING, ZOMBIE };

struct task {
    struct list_head tasks, children, sibling, wait, timers;
    struct hlist_node pid_hash;
    struct rb_node run;
    struct task *parent;
    struct mm *mm;
    struct files *files;
    uint64_t pid, vruntime;
    enum state state;
    unsigned cpu;
    char comm[16];
    uint64_t registers[16];
};

struct timer {
    struct list_head wheel, of_task;
    uint64_t due;
    struct task *task;
};

enum { CPUS = 4, PIDS = 4096, WHEEL = 512, QUEUES = 64, INODES = 2048, TASKS = 6000 };

static struct list_head task_list = LIST_HEAD_INIT(task_list);
static struct hlist_head pid_hash[PIDS];
static struct {
    struct rb_root timeline;
    struct task *current;
    uint64_t clock;
    unsigned running;
} run_queues[CPUS];
static struct list_head wheel[WHEEL];
static struct list_head wait_queues[QUEUES];
static struct {
    struct hlist_head hash[INODES];
    struct list_head lru;
    unsigned count;
} inodes;
static struct {
    void *free; /* each begins with a pointer to the next */
    unsigned count;
} task_cache;

static uint64_t now, next_pid = 1;
static unsigned task_count;

static struct inode *inode_get(uint64_t number)
{
    struct hlist_head *bucket = &inodes.hash[number % INODES];
    for (struct hlist_node *n = bucket->first; n; n = n->next) {
        struct inode *i = container_of(n, struct inode, hash);
        if (i->number == number) {
            i->uses++;
            list_del_init(&i->lru);
            list_add_tail(&i->lru, &inodes.lru);
            return i;
        }
    }
    struct inode *i = calloc(1, sizeof *i);
    char name[80];
    snprintf(name, sizeof name, number % 3 ? "lib%lu.so" : "usr/share/doc/package/file-%lu",
             number);
    i->number = number;
    i->uses = 1;
    i->name = strdup(name);
    for (uint64_t k = truth_random(4); k > 0; k--)
        i->pages[k] = malloc(256);
    hlist_add_head(&i->hash, bucket);
    list_add_tail(&i->lru, &inodes.lru);
    inodes.count++;
    return i;
}

static void shrink_inodes(void)
{
    struct list_head *at = inodes.lru.next, *next;
    for (; at != &inodes.lru && inodes.count > 5000; at = next) {
        struct inode *i = container_of(at, struct inode, lru);
        next = at->next;
        if (i->uses > 0)
            continue;
        hlist_del(&i->hash);
        list_del_init(&i->lru);
        for (size_t k = 0; k < 12; k++)
            free(i->pages[k]);
        free(i->name);
        free(i);
        inodes.count--;
    }
}

static void file_put(struct file *f)
{
    if (--f->uses == 0) {
        f->inode->uses--;
        free(f);
    }
}

static void open_file(struct files *files)
{
    unsigned fd = 0;
    while (fd < files->size && files->fd[fd])
        fd++;
    if (fd >= 24)
        return;
    if (fd == files->size) {
        files->fd = realloc(files->fd, (files->size + 4) * sizeof(struct file *));
        memset(files->fd + files->size, 0, 4 * sizeof(struct file *));
        files->size += 4;
    }
    struct file *f = malloc(sizeof *f);
    f->inode = inode_get(truth_random(12000));
    f->uses = 1;
    f->position = 0;
    files->fd[fd] = f;
}

static void close_file(struct files *files)
{
    unsigned fd = files->size ? (unsigned)truth_random(files->size) : 0;
    if (files->size && files->fd[fd]) {
        file_put(files->fd[fd]);
        files->fd[fd] = NULL;
    }
}

static void files_put(struct files *files)
{
    if (--files->uses > 0)
        return;
    for (unsigned fd = 0; fd < files->size; fd++)
        if (files->fd[fd])
            file_put(files->fd[fd]);
    free(files->fd);
    free(files);
}

static void map(struct mm *mm)
{
    struct vma *v = malloc(sizeof *v);
    v->start = truth_random((uint64_t)1 << 35) << 12;
    v->end = v->start + 4096;
    struct rb_node **link = &mm->tree.node, *parent = NULL;
    while (*link) {
        parent = *link;
        link = v->start < container_of(parent, struct vma, node)->start ? &parent->left
                                                                        : &parent->right;
    }
    rb_insert(&mm->tree, &v->node, parent, link);
    list_add_tail(&v->list, &mm->vmas);
}

static void unmap(struct mm *mm)
{
    if (list_empty(&mm->vmas))
        return;
    struct vma *v = container_of(mm->vmas.next, struct vma, list);
    rb_erase(&mm->tree, &v->node);
    list_del_init(&v->list);
    free(v);
}

static void mm_put(struct mm *mm)
{
    if (--mm->uses > 0)
        return;
    while (!list_empty(&mm->vmas))
        unmap(mm);
    free(mm);
}

static struct task *task_alloc(void)
{
    struct task *t = task_cache.free;
    if (!t)
        return malloc(sizeof *t);
    memcpy(&task_cache.free, t, sizeof(void *));
    task_cache.count--;
    return t;
}

static void task_free(struct task *t)
{
    if (task_cache.count > 1500) {
        free(t);
        return;
    }
    memcpy(t, &task_cache.free, sizeof(void *));
    task_cache.free = t;
    task_cache.count++;
}

static void enqueue(struct task *t)
{
    struct rb_node **link = &run_queues[t->cpu].timeline.node, *parent = NULL;
    while (*link) {
        parent = *link;
        link = t->vruntime < container_of(parent, struct task, run)->vruntime ? &parent->left
                                                                              : &parent->right;
    }
    rb_insert(&run_queues[t->cpu].timeline, &t->run, parent, link);
    run_queues[t->cpu].running++;
    t->state = RUNNING;
}

static void dequeue(struct task *t)
{
    rb_erase(&run_queues[t->cpu].timeline, &t->run);
    run_queues[t->cpu].running--;
    if (run_queues[t->cpu].current == t)
        run_queues[t->cpu].current = NULL;
}

static struct task *find_task(uint64_t pid)
{
    for (struct hlist_node *n = pid_hash[pid % PIDS].first; n; n = n->next)
        if (container_of(n, struct task, pid_hash)->pid == pid)
            return container_of(n, struct task, pid_hash);
    return NULL;
}

static struct task *any_task(void)
{
    for (;;) {
        struct hlist_head *bucket = &pid_hash[truth_random(PIDS)];
        if (bucket->first)
            return container_of(bucket->first, struct task, pid_hash);
    }
}

static void fork_task(struct task *parent)
{
    struct task *t = task_alloc();
    t->pid = next_pid++;
    t->parent = parent;
    t->cpu = (unsigned)truth_random(CPUS);
    t->vruntime = run_queues[t->cpu].clock + truth_random(1000);
    snprintf(t->comm, sizeof t->comm, "task/%lu", t->pid);
    INIT_LIST_HEAD(&t->children);
    INIT_LIST_HEAD(&t->wait);
    INIT_LIST_HEAD(&t->timers);
    INIT_LIST_HEAD(&t->sibling);
    if (parent)
        list_add_tail(&t->sibling, &parent->children);
    list_add_tail(&t->tasks, &task_list);
    hlist_add_head(&t->pid_hash, &pid_hash[t->pid % PIDS]);
    if (parent && truth_random(3) == 0) { /* a thread */
        t->mm = parent->mm;
        t->files = parent->files;
        t->mm->uses++;
        t->files->uses++;
    } else {
        t->mm = malloc(sizeof *t->mm);
        t->mm->uses = 1;
        t->mm->tree.node = NULL;
        INIT_LIST_HEAD(&t->mm->vmas);
        for (uint64_t i = 2 + truth_random(6); i > 0; i--)
            map(t->mm);
        t->files = calloc(1, sizeof *t->files);
        t->files->uses = 1;
        for (uint64_t i = truth_random(5); i > 0; i--)
            open_file(t->files);
    }
    enqueue(t);
    task_count++;
}

static void timer_free(struct timer *timer)
{
    list_del_init(&timer->wheel);
    list_del_init(&timer->of_task);
    free(timer);
}

static void exit_task(struct task *t)
{
    if (!t->parent)
        return; /* the first */
    if (t->state == RUNNING)
        dequeue(t);
    list_del_init(&t->wait);
    while (!list_empty(&t->timers))
        timer_free(container_of(t->timers.next, struct timer, of_task));
    while (!list_empty(&t->children)) {
        struct task *child = container_of(t->children.next, struct task, sibling);
        list_del_init(&child->sibling);
        child->parent = t->parent;
        list_add_tail(&child->sibling, &t->parent->children);
    }
    list_del_init(&t->sibling);
    list_del_init(&t->tasks);
    hlist_del(&t->pid_hash);
    mm_put(t->mm);
    files_put(t->files);
    task_free(t);
    task_count--;
}

static void set_timer(struct task *t)
{
    struct timer *timer = malloc(sizeof *timer);
    timer->due = now + 1 + truth_random(40000);
    timer->task = t;
    list_add_tail(&timer->wheel, &wheel[timer->due % WHEEL]);
    list_add_tail(&timer->of_task, &t->timers);
}

static void wake(struct task *t)
{
    if (t->state != SLEEPING)
        return;
    list_del_init(&t->wait);
    enqueue(t);
}

static void tick(void)
{
    struct list_head *slot = &wheel[++now % WHEEL], *at = slot->next, *next;
    for (; at != slot; at = next) {
        struct timer *timer = container_of(at, struct timer, wheel);
        next = at->next;
        if (timer->due > now)
            continue;
        wake(timer->task);
        timer_free(timer);
    }
}

static void schedule(unsigned cpu)
{
    struct rb_node *first = run_queues[cpu].timeline.node;
    if (!first)
        return;
    while (first->left)
        first = first->left;
    struct task *t = container_of(first, struct task, run);
    dequeue(t);
    run_queues[cpu].clock = t->vruntime;
    t->vruntime += 10 + truth_random(200);
    if (truth_random(3) == 0) {
        t->state = SLEEPING;
        list_add_tail(&t->wait, &wait_queues[truth_random(QUEUES)]);
    } else {
        enqueue(t);
        run_queues[cpu].current = t;
    }
}

static void churn(void)
{
    for (size_t i = 0; i < WHEEL; i++)
        INIT_LIST_HEAD(&wheel[i]);
    for (size_t i = 0; i < QUEUES; i++)
        INIT_LIST_HEAD(&wait_queues[i]);
    INIT_LIST_HEAD(&inodes.lru);
    fork_task(NULL);
    for (int i = 0; i < 300000; i++) {
        uint64_t what = truth_random(100);
        tick();
        if (task_count < 1000 || (what < 8 && task_count < TASKS))
            fork_task(any_task());
        else if (what < 13)
            exit_task(any_task());
        else if (what < 40)
            schedule((unsigned)truth_random(CPUS));
        else if (what < 50)
            set_timer(any_task());
        else if (what < 60)
            open_file(any_task()->files);
        else if (what < 70)
            close_file(any_task()->files);
        else if (what < 76)
            map(any_task()->mm);
        else if (what < 82)
            unmap(any_task()->mm);
        else if (what < 90) {
            struct list_head *queue = &wait_queues[truth_random(QUEUES)];
            while (!list_empty(queue) && truth_random(8))
                wake(container_of(queue->next, struct task, wait));
        } else {
            struct task *t = find_task(truth_random(next_pid));
            if (t)
                t->registers[truth_random(16)] = truth_random(1u << 20);
        }
        if (i % 1024 == 0)
            shrink_inodes();
    }
    for (unsigned i = 0; i < 600; i++) /* a batch of jobs is done */
        exit_task(any_task());
}

/* --- truth -------------------------------------------------------------------------- */

static void tell_list(const struct tell_as *t, const struct list_head *l)
{
    tell_word(t, &l->next);
    tell_word(t, &l->prev);
}

static void tell_hlist(const struct tell_as *t, const struct hlist_node *n)
{
    tell_word(t, &n->next);
    tell_word(t, &n->pprev);
}

static void tell_rb(const struct tell_as *t, const struct rb_node *n)
{
    if (rb_parent(n))
        tell_word(t, &n->parent_color);
    tell_word(t, &n->left);
    tell_word(t, &n->right);
}

/* Those of threads are told once for each: the same holds. */
static void tell_mm(const struct tell_as *t, const struct mm *mm)
{
    const struct list_head *at;
    tell_block(t, mm);
    tell_word(t, &mm->tree.node);
    tell_list(t, &mm->vmas);
    tell_words(t, mm);
    list_for_each(at, &mm->vmas)
    {
        const struct vma *v = container_of(at, struct vma, list);
        tell_block(t, v);
        tell_rb(t, &v->node);
        tell_list(t, &v->list);
        tell_words(t, v);
    }
}

static void tell_files(const struct tell_as *t, const struct files *files)
{
    tell_block(t, files);
    tell_block(t, files->fd);
    tell_word(t, &files->fd);
    tell_words(t, files);
    for (unsigned fd = 0; fd < files->size; fd++) {
        struct file *f = files->fd[fd];
        tell_word(t, &files->fd[fd]);
        if (!f)
            continue;
        tell_block(t, f);
        tell_word(t, &f->inode);
        tell_words(t, f);
    }
    tell_words(t, files->fd);
}

static void tell_inodes(const struct tell_as *t)
{
    const struct list_head *at;
    list_for_each(at, &inodes.lru)
    {
        const struct inode *i = container_of(at, struct inode, lru);
        tell_block(t, i);
        tell_block(t, i->name);
        tell_hlist(t, &i->hash);
        tell_list(t, &i->lru);
        tell_word(t, &i->name);
        for (size_t k = 0; k < 12; k++) {
            tell_word(t, &i->pages[k]);
            tell_block(t, i->pages[k]);
        }
        tell_words(t, i);
    }
}

/* From each task the list of tasks leads to all, and from there files to all inodes. */
static void tell_tasks(const struct tell_as *t)
{
    const struct list_head *at, *of;
    list_for_each(at, &task_list)
    {
        const struct task *task = container_of(at, struct task, tasks);
        tell_block(t, task);
        tell_list(t, &task->tasks);
        tell_list(t, &task->children);
        tell_list(t, &task->sibling);
        tell_list(t, &task->wait);
        tell_list(t, &task->timers);
        tell_hlist(t, &task->pid_hash);
        if (task->state == RUNNING)
            tell_rb(t, &task->run);
        tell_word(t, &task->parent);
        tell_word(t, &task->mm);
        tell_word(t, &task->files);
        tell_words(t, task);
        tell_mm(t, task->mm);
        tell_files(t, task->files);
        list_for_each(of, &task->timers)
        {
            const struct timer *timer = container_of(of, struct timer, of_task);
            tell_block(t, timer);
            tell_list(t, &timer->wheel);
            tell_list(t, &timer->of_task);
            tell_word(t, &timer->task);
            tell_words(t, timer);
        }
    }
}

static void tell_all(const char *name)
{
    struct tell_as t = {name, false, false};
    tell_tasks(&t);
    tell_inodes(&t);
}

static void tell(void *of)
{
    (void)of;
    TELL_ROOT(task_list);
    TELL_ROOT(pid_hash);
    TELL_ROOT(run_queues);
    TELL_ROOT(wheel);
    TELL_ROOT(wait_queues);
    TELL_ROOT(inodes);
    TELL_ROOT(task_cache);

    struct tell_as t = {"task_list", true, true};
    tell_list(&t, &task_list);
    tell_tasks(&t);
    t.own = t.words = false;
    tell_inodes(&t);

    t = (struct tell_as){"inodes", true, true};
    tell_list(&t, &inodes.lru);
    for (size_t i = 0; i < INODES; i++)
        tell_word(&t, &inodes.hash[i].first);
    tell_inodes(&t);

    for (size_t i = 0; i < PIDS; i++)
        tell_word(&t, &pid_hash[i].first);
    tell_all("pid_hash");
    for (size_t i = 0; i < CPUS; i++) {
        tell_word(&t, &run_queues[i].timeline.node);
        tell_word(&t, &run_queues[i].current);
    }
    tell_all("run_queues");
    for (size_t i = 0; i < WHEEL; i++)
        tell_list(&t, &wheel[i]);
    tell_all("wheel");
    for (size_t i = 0; i < QUEUES; i++)
        tell_list(&t, &wait_queues[i]);
    tell_all("wait_queues");

    t = (struct tell_as){"task_cache", true, true};
    tell_word(&t, &task_cache.free);
    for (void *p = task_cache.free; p; memcpy(&p, p, sizeof p)) {
        tell_block(&t, p);
        tell_word(&t, p);
        tell_words(&t, p);
    }
}

int main(int argc, char **argv)
{
    churn();
    truth_rest(argc, argv, tell, NULL);
    return 0;
}
