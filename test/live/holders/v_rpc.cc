/* v_rpc.cc - a server for calls: sessions with the methods that they offer, calls that wait for
 * their time with what they will do, buffers that move between lists, and values of any
 * type that a session keeps.
 */
#include "truth_std.h"

#include <any>
#include <functional>

static unsigned g_pass;

struct Service {
    std::string name, description;
    std::vector<double> timings;
    mutable unsigned told = 0;

    void tell(const truth_holders &by) const
    {
        truth_tell(by, name, description, timings);
    }
};

struct Session;

/* What many lead to is told once for each root. */
template <class T> void tell_shared(const std::shared_ptr<T> &p, const truth_holders &by)
{
    truth_word_range(&p, 0, 2);
    if (!p || p->told == g_pass)
        return;
    p->told = g_pass;
    truth_tell(p, by);
}

/* What a std::function keeps: on the heap if it is large, and then its first word points there. */
template <class F, class T> bool tell_if(const T &function, const truth_holders &by)
{
    const F *target = function.template target<F>();
    if (!target)
        return false;
    const char *self = reinterpret_cast<const char *>(&function);
    const char *to = reinterpret_cast<const char *>(target);
    if (to < self || to >= self + sizeof function) {
        for (size_t i = 0; i < sizeof function / sizeof(void *); i++)
            if (truth_words_of(&function)[i] == to)
                truth_word(truth_words_of(&function) + i);
        truth_block(to, by);
    }
    target->tell(by);
    return true;
}

/* Methods. */
struct Echo {
    uint32_t times;

    std::string operator()(const std::string &text) const
    {
        return text + std::to_string(times);
    }
    void tell(const truth_holders &) const
    {
    }
};

struct Forward {
    std::shared_ptr<Service> service;
    std::string prefix;

    std::string operator()(const std::string &text) const
    {
        service->timings.push_back(double(text.size()));
        if (service->timings.size() > 60)
            service->timings = {1.0, 2.0};
        return prefix + text;
    }
    void tell(const truth_holders &by) const
    {
        tell_shared(service, by);
        truth_tell(by, prefix);
    }
};

struct Method {
    std::function<std::string(const std::string &)> call;
    uint64_t calls = 0;

    void tell(const truth_holders &by) const
    {
        if (!tell_if<Echo>(call, by))
            tell_if<Forward>(call, by);
    }
};

/* Values of std::any. */
struct Login {
    std::string user, token;
    std::vector<std::string> groups;

    void tell(const truth_holders &by) const
    {
        truth_tell(by, user, token, groups);
    }
};

struct Value {
    std::any any;

    template <class T> bool tell_as(const truth_holders &by) const
    {
        const T *value = std::any_cast<T>(&any);
        if (!value)
            return false;
        const char *self = reinterpret_cast<const char *>(&any);
        const char *to = reinterpret_cast<const char *>(value);
        if (to < self || to >= self + sizeof any) {
            for (size_t i = 0; i < sizeof any / sizeof(void *); i++)
                if (truth_words_of(&any)[i] == to)
                    truth_word(truth_words_of(&any) + i);
            truth_block(to, by);
        }
        truth_tell(*value, by);
        return true;
    }
    void tell(const truth_holders &by) const
    {
        if (any.has_value() && !tell_as<uint64_t>(by) && !tell_as<std::string>(by) &&
            !tell_as<Login>(by))
            tell_as<std::vector<uint32_t>>(by);
    }
};

using Buffer = std::vector<char>;
using Buffers = std::list<Buffer>;

struct Session {
    std::string peer;
    std::map<std::string, Method> methods;
    std::map<std::string, Value> values;
    Buffers out;
    mutable unsigned told = 0;

    void tell(const truth_holders &by) const
    {
        truth_tell(by, peer, methods, values, out);
    }
};

/* What a call does when its time has come. */
struct Call {
    std::shared_ptr<Session> session;
    std::string method, argument;

    void operator()() const;
    void tell(const truth_holders &by) const
    {
        tell_shared(session, by);
        truth_tell(by, method, argument);
    }
};

struct Ping {
    std::shared_ptr<Session> session;

    void operator()() const;
    void tell(const truth_holders &by) const
    {
        tell_shared(session, by);
    }
};

struct Timer {
    uint64_t due;
    std::function<void()> action;

    bool operator<(const Timer &other) const
    {
        return due > other.due;
    }
    void tell(const truth_holders &by) const
    {
        if (!tell_if<Call>(action, by))
            tell_if<Ping>(action, by);
    }
};

struct Route {
    std::shared_ptr<Session> session;

    void tell(const truth_holders &by) const
    {
        tell_shared(session, by);
    }
};

struct Offer {
    std::shared_ptr<Service> service;

    void tell(const truth_holders &by) const
    {
        tell_shared(service, by);
    }
};

static std::map<std::string, Route> g_sessions;
static std::vector<Offer> g_services(150);
static std::priority_queue<Timer> g_timers;
static Buffers g_spare, g_sent;
static uint64_t g_now;

static void send(Session &session, const std::string &text)
{
    if (g_spare.empty())
        g_spare.emplace_back();
    Buffer &buffer = g_spare.front();
    buffer.insert(buffer.end(), text.begin(), text.end());
    session.out.splice(session.out.end(), g_spare, g_spare.begin());
}

static void flush(Session &session)
{
    g_sent.splice(g_sent.end(), session.out);
    while (g_sent.size() > 900) {
        g_sent.front().clear();
        if (g_spare.size() < 400)
            g_spare.splice(g_spare.begin(), g_sent, g_sent.begin());
        else
            g_sent.pop_front();
    }
}

void Call::operator()() const
{
    auto found = session->methods.find(method);
    if (found == session->methods.end())
        return;
    found->second.calls++;
    send(*session, found->second.call(argument));
}

void Ping::operator()() const
{
    send(*session, "ping");
    flush(*session);
}

static std::string number(const char *text, uint64_t below)
{
    return text + std::to_string(truth_random(below));
}

static std::shared_ptr<Service> service()
{
    auto &s = g_services[truth_random(g_services.size())].service;
    if (!s || truth_random(200) == 0) { /* started anew: sessions may keep the old one */
        s = std::make_shared<Service>();
        s->name = number("service-", 1000);
        s->description = "This service is of version " + std::to_string(g_now);
    }
    return s;
}

static std::string peer()
{
    uint64_t n = truth_random(1500);
    return (n % 2 ? "10.0.0." : "client.of.some.network:") + std::to_string(n);
}

static std::string method()
{
    return number(truth_random(2) ? "get" : "a.method.with.a.long.name.", 9);
}

static void offer(Session &session)
{
    Method &m = session.methods[method()];
    if (truth_random(3) == 0)
        m.call = Echo{uint32_t(g_now)};
    else
        m.call = Forward{service(), number("/prefix/of/the/path/", 100)};
}

static void keep(Session &session)
{
    Value &value = session.values[number("key", 6)];
    switch (truth_random(4)) {
    case 0:
        value.any = uint64_t(g_now);
        break;
    case 1:
        value.any = number("a string that is kept ", 1000);
        break;
    case 2:
        value.any = Login{number("user", 50), number("a-token-which-is-long-", 1000),
                          std::vector<std::string>(truth_random(4), number("group-of-some-", 20))};
        break;
    default:
        value.any = std::vector<uint32_t>(1 + truth_random(40), 17u);
    }
}

static void schedule(const std::shared_ptr<Session> &session)
{
    uint64_t due = g_now + 1 + truth_random(12000);
    if (truth_random(2))
        g_timers.push({due, Call{session, method(), number("argument of the call ", 1000)}});
    else
        g_timers.push({due, Ping{session}});
}

static void churn()
{
    for (g_now = 0; g_now < 300000; g_now++) {
        std::string name = peer();
        auto found = g_sessions.find(name);
        uint64_t what = truth_random(100);
        if (found == g_sessions.end()) {
            auto session = std::make_shared<Session>();
            session->peer = name;
            g_sessions.emplace(name, Route{session});
        } else if (what < 6) {
            g_sessions.erase(found); /* timers keep it until they are due */
        } else if (what < 26) {
            offer(*found->second.session);
        } else if (what < 46) {
            keep(*found->second.session);
        } else if (what < 60) {
            schedule(found->second.session);
        } else if (what < 80) {
            send(*found->second.session, number("a message without an answer ", 100000));
        } else if (what < 92) {
            flush(*found->second.session);
        } else if (!found->second.session->methods.empty()) {
            auto &methods = found->second.session->methods;
            methods.erase(methods.begin());
        }
        while (!g_timers.empty() && g_timers.top().due <= g_now) {
            auto action = std::move(const_cast<Timer &>(g_timers.top()).action);
            g_timers.pop();
            action();
        }
    }
}

/* --- truth -------------------------------------------------------------------------- */

static void tell(void *)
{
    TRUTH_ROOT(g_sessions);
    TRUTH_ROOT(g_services);
    TRUTH_ROOT(g_timers);
    TRUTH_ROOT(g_spare);
    TRUTH_ROOT(g_sent);
    for (const void *root : {(void *)&g_sessions, (void *)&g_services, (void *)&g_timers,
                             (void *)&g_spare, (void *)&g_sent})
        truth_words(root);

    g_pass++;
    truth_tell(g_sessions, {{"g_sessions"}, {}});
    g_pass++;
    truth_tell(g_services, {{"g_services"}, {}});
    g_pass++;
    truth_tell(g_timers, {{"g_timers"}, {}});
    truth_tell(g_spare, {{"g_spare"}, {}});
    truth_tell(g_sent, {{"g_sent"}, {}});
}

int main(int argc, char **argv)
{
    churn();
    truth_rest(argc, argv, tell, nullptr);
}
