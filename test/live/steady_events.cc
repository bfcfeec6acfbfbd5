// steady_events.cc - an event server that churns and in which nothing changes hands: connections, a
// heap of timers that point to them, handlers by name, events that wait, and answers that are kept.
#include "steady.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>

struct Connection {
    explicit Connection(uint64_t n) : id(n)
    {
    }
    virtual ~Connection() = default;
    uint64_t id, due = 0;
    std::string peer;
    std::vector<char> in, out;
    std::map<std::string, std::string> headers;
};

struct Timer {
    uint64_t due;
    Connection *connection;
    std::function<void(Connection &)> fire;
};

struct Event {
    uint64_t id;
    std::string what;
};

static std::unordered_map<uint64_t, std::unique_ptr<Connection>> g_connections;
static std::vector<Timer> g_timers; // a heap: the next one first
static std::deque<Event> g_events;
static std::unordered_map<std::string, std::function<std::string(const std::string &)>> g_handlers;
static std::map<std::string, std::string> g_answers;
static uint64_t g_now;
static std::mutex lock;

static bool later(const Timer &a, const Timer &b)
{
    return a.due > b.due;
}

static void arm(Connection &connection, Dice &dice)
{
    connection.due = g_now + 1000 + dice(60000);
    std::string why = words(dice, "idle ");
    g_timers.push_back({connection.due, &connection, [why](Connection &c) { c.peer = why; }});
    std::push_heap(g_timers.begin(), g_timers.end(), later);
}

static void disarm(const Connection *connection)
{
    auto end = std::remove_if(g_timers.begin(), g_timers.end(),
                              [=](const Timer &timer) { return timer.connection == connection; });
    g_timers.erase(end, g_timers.end());
    std::make_heap(g_timers.begin(), g_timers.end(), later);
}

static void fire(Dice &dice)
{
    while (!g_timers.empty() && g_timers.front().due <= g_now) {
        std::pop_heap(g_timers.begin(), g_timers.end(), later);
        Timer timer = std::move(g_timers.back());
        g_timers.pop_back();
        if (timer.due != timer.connection->due)
            continue; // it was armed again
        timer.fire(*timer.connection);
        timer.connection->headers.clear();
        arm(*timer.connection, dice);
    }
}

static void work(Dice &dice)
{
    std::lock_guard<std::mutex> guard(lock);
    g_now += 4;
    fire(dice);
    std::unique_ptr<Connection> &connection = g_connections[dice(5000)];
    if (!connection) {
        connection = std::make_unique<Connection>(g_now);
        connection->peer = words(dice, "peer ");
        arm(*connection, dice);
    } else if (dice(400) == 0) {
        disarm(connection.get());
        connection.reset();
        return;
    }
    connection->in.resize(100 + dice(900));
    connection->out.assign(dice(400), 'x');
    connection->headers["header " + std::to_string(dice(8))] = words(dice, "value ");
    g_events.push_back({connection->id, words(dice, "event ")});
    if (g_events.size() > 6000)
        g_events.pop_front();
    std::string name = "handler " + std::to_string(dice(2000));
    if (dice(10) == 0) {
        std::string suffix = words(dice, "suffix ");
        g_handlers[name] = [suffix](const std::string &text) { return text + suffix; };
    }
    auto handler = g_handlers.find(name);
    if (handler != g_handlers.end())
        g_answers[name] = handler->second(words(dice, "question "));
}

int main()
{
    live_steadily(2, work);
}
