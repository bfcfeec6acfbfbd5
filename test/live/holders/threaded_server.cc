// threaded_server.cc - workers that take requests, a cache, handlers and statistics.
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "truth_std.h"

namespace
{

enum { WORKERS = 8, REQUESTS = 40000 };

struct Entry {
    std::string key, body;
    std::vector<std::pair<std::string, std::string>> headers;
    uint64_t hits = 0;
    void tell(const truth_holders &by) const
    {
        truth_tell(by, key, body, headers);
    }
};

struct Request {
    std::string path;
    std::vector<std::string> arguments;
    std::string answer;
    std::shared_ptr<Entry> entry;
    void tell(const truth_holders &by) const
    {
        truth_tell(by, path, arguments, answer, entry);
    }
};

struct Statistic {
    uint64_t count = 0;
    std::deque<double> latest;
    std::map<int, uint64_t> codes;
    void tell(const truth_holders &by) const
    {
        truth_tell(by, latest, codes);
    }
};

struct Handler {
    std::string prefix;
    virtual ~Handler() = default;
    virtual void handle(Request &request, uint64_t random) = 0;
    virtual void tell(const truth_holders &by) const
    {
        truth_tell(by, prefix);
    }
};

std::mutex g_lock;
std::unordered_map<std::string, std::shared_ptr<Entry>> g_cache;
std::map<std::string, std::unique_ptr<Handler>> g_handlers;
std::map<std::string, Statistic> g_stats;

struct Pages : Handler {
    std::vector<std::string> templates;
    void handle(Request &request, uint64_t random) override
    {
        std::lock_guard<std::mutex> hold(g_lock);
        auto &entry = g_cache[request.path];
        if (!entry || random % 5 == 0) {
            entry = std::make_shared<Entry>();
            entry->key = request.path;
            for (uint64_t n = random % 7; n > 0; n--)
                entry->headers.emplace_back("x-" + std::to_string(n),
                                            "value " + std::to_string(random >> n));
            entry->body = templates[random % templates.size()];
            entry->body.append(random % 700, 'b');
        }
        entry->hits++;
        request.entry = entry;
        request.answer = entry->body;
    }
    void tell(const truth_holders &by) const override
    {
        truth_tell(by, prefix, templates);
    }
};

struct Purge : Handler {
    std::set<std::string> purged;
    void handle(Request &request, uint64_t random) override
    {
        std::lock_guard<std::mutex> hold(g_lock);
        g_cache.erase(request.arguments.empty() ? request.path : request.arguments[0]);
        purged.insert(request.path);
        if (purged.size() > 2000)
            purged.erase(purged.begin());
        request.entry.reset();
        request.answer =
            random % 2 ? "purged" : "a longer text that says what was purged, and when";
    }
    void tell(const truth_holders &by) const override
    {
        truth_tell(by, prefix, purged);
    }
};

std::mutex g_queue_lock;
std::condition_variable g_wake;
std::atomic<int> g_at_rest;
bool g_end;
const Request *g_of_worker[WORKERS]; // on their stacks

void account(const std::string &what, uint64_t random)
{
    std::lock_guard<std::mutex> hold(g_lock);
    Statistic &statistic = g_stats[what];
    statistic.count++;
    statistic.latest.push_back(double(random % 1000));
    if (statistic.latest.size() > 80)
        statistic.latest.pop_front();
    statistic.codes[200 + int(random % 11)]++;
}

void serve(Request &request, uint64_t random)
{
    request.arguments.clear();
    request.path =
        "/pages/" + std::to_string(random % 9000) + (random % 4 ? "" : "/with/a/longer/path");
    for (uint64_t n = random % 3; n > 0; n--)
        request.arguments.push_back("/pages/" + std::to_string((random >> 20) % 9000));
    auto &handler = g_handlers[random % 9 ? "pages" : "purge"]; // never changes once workers run
    handler->handle(request, random >> 8);
    account(handler->prefix + std::to_string(random % 300), random >> 4);
}

void work(int number)
{
    Request request;
    uint64_t random = 88172645463325252u + uint64_t(number) * 2654435761u;
    for (int i = 0; i < REQUESTS; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        serve(request, random);
    }
    g_of_worker[number] = &request;
    g_at_rest++;
    std::unique_lock<std::mutex> hold(g_queue_lock);
    g_wake.wait(hold, [] { return g_end; });
}

void tell(void *)
{
    TRUTH_ROOT(g_cache);
    TRUTH_ROOT(g_handlers);
    TRUTH_ROOT(g_stats);
    truth_tell(g_cache, {{"g_cache"}, {}});
    truth_tell(g_handlers, {{"g_handlers"}, {}});
    truth_tell(g_stats, {{"g_stats"}, {}});
    for (const Request *request : g_of_worker) {
        truth_root("request", request, sizeof *request);
        truth_tell(*request, {{"request"}, {}}); // a cached entry is theirs as well
    }
}

} // namespace

int main(int argc, char **argv)
{
    auto pages = std::make_unique<Pages>();
    for (int i = 0; i < 200; i++)
        pages->templates.push_back("<html><body>page " + std::to_string(i) +
                                   std::string(size_t(i), '.'));
    pages->prefix = "pages";
    g_handlers["pages"] = std::move(pages);
    g_handlers["purge"] = std::make_unique<Purge>();
    g_handlers["purge"]->prefix = "purge of what is old ";
    std::vector<std::thread> workers;
    for (int i = 0; i < WORKERS; i++)
        workers.emplace_back(work, i);
    while (g_at_rest < WORKERS)
        usleep(1000);
    usleep(20000); // the last one goes to sleep
    truth_rest(argc, argv, tell, nullptr);
    _exit(0);
}
