/* u_pool.cc - a pool of threads: a queue of std::function, delayed tasks in a heap by time, and
 * calls that wait for their reply, with the promise on one side and the future on the other.
 */
#include "u_tell.h"

#include <chrono>
#include <condition_variable>
#include <future>
#include <map>
#include <queue>
#include <thread>
#include <unordered_map>

struct Document {
    uint64_t id = 0;
    std::string title;
    std::vector<double> weights;
};

struct Reply {
    uint64_t id = 0;
    std::string text;
};

/* Tasks: what the queues hold. */
struct Reindex {
    std::shared_ptr<Document> document;
    uint64_t pass;
    void operator()() const;
};
struct Summarise {
    std::shared_ptr<std::packaged_task<Reply()>> task;
    void operator()() const
    {
        (*task)();
    }
};
struct Note {
    std::string text;
    void operator()() const;
};

using Task = std::function<void()>;

struct Delayed {
    uint64_t due;
    Task task;
    bool operator<(const Delayed &other) const
    {
        return due > other.due;
    }
};

struct Later : std::priority_queue<Delayed> {
    const std::vector<Delayed> &all() const
    {
        return c;
    }
};

class Pool
{
  public:
    void start(unsigned n)
    {
        for (unsigned i = 0; i < n; i++)
            threads.emplace_back([this] { work(); });
    }
    void submit(Task task)
    {
        std::lock_guard<std::mutex> guard(mutex);
        ready.push_back(std::move(task));
        if (idle)
            wake.notify_one();
    }
    void submit(uint64_t due, Task task)
    {
        std::lock_guard<std::mutex> guard(mutex);
        later.push({due, std::move(task)});
    }
    /* Tasks whose time has come go to the queue of those that are ready. */
    void tick(uint64_t now)
    {
        std::lock_guard<std::mutex> guard(mutex);
        while (!later.empty() && later.top().due <= now) {
            ready.push_back(std::move(const_cast<Delayed &>(later.top()).task));
            later.pop();
        }
        wake.notify_all();
    }
    void drain()
    {
        std::unique_lock<std::mutex> lock(mutex);
        done.wait(lock, [this] { return ready.empty() && idle == threads.size(); });
    }
    void stop()
    {
        {
            std::lock_guard<std::mutex> guard(mutex);
            stopping = true;
        }
        wake.notify_all();
        for (auto &thread : threads)
            thread.join();
    }
    void tell(const Tell &t) const;

  private:
    void work();

    std::mutex mutex;
    std::condition_variable wake, done;
    std::vector<std::thread> threads;
    std::deque<Task> ready;
    Later later;
    size_t idle = 0;
    bool stopping = false;
};

static Pool g_pool;
static std::unordered_map<uint64_t, std::shared_ptr<Document>> g_documents;
static std::unordered_map<uint64_t, std::promise<Reply>> g_calls;
static std::map<uint64_t, std::future<Reply>> g_replies;
static std::mutex g_log_mutex;
static std::deque<std::string> g_log;

void Pool::work()
{
    for (;;) {
        Task task;
        {
            std::unique_lock<std::mutex> lock(mutex);
            idle++;
            if (ready.empty() && idle == threads.size())
                done.notify_all();
            wake.wait(lock, [this] { return stopping || !ready.empty(); });
            idle--;
            if (stopping)
                return;
            task = std::move(ready.front());
            ready.pop_front();
        }
        task();
    }
}

void Reindex::operator()() const
{
    double sum = 0;
    for (double w : document->weights)
        sum += w;
    if (sum < 0 || pass % 64 == 0) {
        std::lock_guard<std::mutex> guard(g_log_mutex);
        g_log.push_back("document " + document->title + " has " + std::to_string(sum));
        if (g_log.size() > 3000)
            g_log.pop_front();
    }
}

void Note::operator()() const
{
    std::lock_guard<std::mutex> guard(g_log_mutex);
    g_log.push_back(text);
    if (g_log.size() > 3000)
        g_log.pop_front();
}

static std::shared_ptr<Document> new_document(uint64_t id)
{
    auto d = std::make_shared<Document>();
    d->id = id;
    d->title = (id % 3 ? "memo " : "minutes of the meeting on ") + std::to_string(id);
    d->weights.resize(10 + truth_random(80), 0.5);
    return d;
}

static Reply summary(uint64_t id)
{
    return {id, id % 4 ? "nothing new in " + std::to_string(id) : "ok"};
}

static void churn()
{
    std::vector<uint64_t> asked;
    for (uint64_t i = 0; i < 300000; i++) {
        uint64_t what = truth_random(100), id = truth_random(9000);
        if (what < 12) {
            g_documents[id] = new_document(id);
        } else if (what < 18) {
            g_documents.erase(id);
        } else if (what < 50) {
            auto found = g_documents.find(id);
            if (found != g_documents.end())
                g_pool.submit(Reindex{found->second, i});
        } else if (what < 58) {
            auto found = g_documents.find(id);
            if (found != g_documents.end())
                g_pool.submit(i + 1000 + truth_random(120000), Reindex{found->second, i});
        } else if (what < 62) {
            g_pool.submit(i + 1000 + truth_random(120000),
                          Note{"remember " + std::to_string(i) + " and those after it"});
        } else if (what < 75) {
            auto task = std::make_shared<std::packaged_task<Reply()>>([i] { return summary(i); });
            g_replies[i] = task->get_future();
            g_pool.submit(Summarise{std::move(task)});
            asked.push_back(i);
        } else if (what < 80) {
            std::promise<Reply> promise;
            g_replies[i] = promise.get_future();
            g_calls.emplace(i, std::move(promise));
            asked.push_back(i);
        } else if (!asked.empty()) {
            size_t k = truth_random(asked.size());
            uint64_t call = asked[k];
            auto waits = g_calls.find(call);
            if (waits != g_calls.end()) {
                waits->second.set_value(summary(call));
                g_calls.erase(waits);
            } else if (truth_random(16)) {
                g_replies.at(call).get();
                g_replies.erase(call);
                asked[k] = asked.back();
                asked.pop_back();
            }
        }
        if (i % 64 == 0)
            g_pool.tick(i);
    }
    g_pool.drain();
}

/* --- truth -------------------------------------------------------------------------- */

static void tell_document(const Tell &t, const std::shared_ptr<Document> &d)
{
    t.shared(d);
    t.string(d->title);
    t.vector(d->weights);
}

static void tell_task(const Tell &t, const Task &task)
{
    if (auto reindex = t.function<Reindex>(task))
        tell_document(t, reindex->document);
    if (auto note = t.function<Note>(task))
        t.string(note->text);
}

void Pool::tell(const Tell &t) const
{
    t.vector(threads);
    t.deque(ready);
    t.vector(later.all());
    for (const Delayed &d : later.all())
        tell_task(t, d.task);
}

#ifdef __GLIBCXX__
/* What promise and future share, as libstdc++ lays it out: the state has its result behind the
 * pointer to its virtual table; a result has the value behind two words. */
static void tell_result(const Tell &t, const void *result, bool has_value)
{
    t.block(result);
    if (has_value)
        t.string(reinterpret_cast<const Reply *>(static_cast<const char *>(result) + 16)->text);
}

static void tell_state(const Tell &t, const void *shared, bool)
{
    t.nth(shared, 0);
    t.nth(shared, 1);
    const void *state = Tell::at(shared, 0);
    t.block(state);
    t.block(Tell::at(shared, 1));
    if (const void *result = Tell::at(state, 1)) {
        t.nth(state, 1);
        tell_result(t, result, true);
    }
}

/* The result that is not given yet. */
static void tell_promised(const Tell &t, const void *promise)
{
    t.nth(promise, 2);
    tell_result(t, Tell::at(promise, 2), false);
}
#else
/* libc++: the value is in the state, behind the counts, the exception, a mutex and a condition. */
static void tell_state(const Tell &t, const void *shared, bool has_value)
{
    t.nth(shared, 0);
    const char *state = static_cast<const char *>(Tell::at(shared, 0));
    t.block(state);
    if (has_value)
        t.string(reinterpret_cast<const Reply *>(state + 120)->text);
}

static void tell_promised(const Tell &, const void *)
{
}
#endif

static void tell(void *)
{
    TELL_ROOT(g_pool);
    TELL_ROOT(g_documents);
    TELL_ROOT(g_calls);
    TELL_ROOT(g_replies);
    TELL_ROOT(g_log);

    g_pool.tell(Tell::owner("g_pool"));

    Tell documents = Tell::owner("g_documents");
    documents.hash(g_documents);
    for (const auto &i : g_documents) {
        documents.hash_node(&i);
        tell_document(documents, i.second);
        documents.complete(&i);
    }

    Tell calls = Tell::owner("g_calls");
    calls.hash(g_calls);
    for (const auto &i : g_calls) {
        calls.hash_node(&i);
        tell_state(calls, &i.second, false);
        tell_promised(calls, &i.second);
        calls.complete(&i);
    }

    Tell replies = Tell::owner("g_replies");
    replies.tree(g_replies);
    for (const auto &i : g_replies) {
        replies.tree_node(&i);
        auto state = i.second.wait_for(std::chrono::seconds(0));
        tell_state(replies, &i.second, state == std::future_status::ready);
        replies.complete(&i);
    }

    Tell log = Tell::owner("g_log");
    log.deque(g_log);
    for (const auto &line : g_log)
        log.string(line);
}

int main(int argc, char **argv)
{
    g_pool.start(4);
    churn();
    truth_rest(argc, argv, tell, nullptr);
    g_pool.stop();
}
