/* u_broker.cc - a messaging broker: topics know their subscriptions weakly, clients own them;
 * a message is in the queue of each subscription, among those that a topic retains, among those
 * that were sent and not acknowledged, and, weakly, in the heap of deadlines.
 */
#include "u_tell.h"

#include <map>
#include <unordered_map>

struct Message {
    uint64_t id = 0;
    std::string topic;
    std::string body;
    std::map<std::string, std::string> headers;
};

using MessagePtr = std::shared_ptr<Message>;

struct Topic;

struct Subscription {
    std::string filter;
    std::weak_ptr<Topic> topic;
    std::list<MessagePtr> queue;
    uint64_t delivered = 0;
};

struct Topic {
    std::string name;
    std::vector<std::weak_ptr<Subscription>> subscriptions;
    std::deque<MessagePtr> retained;
};

struct Client {
    std::string name;
    std::vector<std::shared_ptr<Subscription>> subscriptions;
};

struct Unacked {
    MessagePtr message;
    std::string client;
};

static std::unordered_map<std::string, std::shared_ptr<Topic>> g_topics;
static std::map<std::string, std::unique_ptr<Client>> g_clients;
static std::multimap<uint64_t, std::weak_ptr<Message>> g_deadlines;
static std::unordered_map<uint64_t, Unacked> g_unacked;

enum { TOPICS = 600, CLIENTS = 900 };
static uint64_t g_messages, g_delivery;

static std::string topic_name(uint64_t n)
{
    static const char *const areas[] = {"orders", "billing/invoices", "sensors/building-7/floor-3",
                                        "chat"};
    return std::string(areas[n % 4]) + "/" + std::to_string(n);
}

static std::string client_name(uint64_t n)
{
    return (n % 2 ? "c" : "client-with-a-name-") + std::to_string(n);
}

static std::shared_ptr<Topic> topic(uint64_t n)
{
    auto &t = g_topics[topic_name(n)];
    if (!t) {
        t = std::make_shared<Topic>();
        t->name = topic_name(n);
    }
    return t;
}

static void subscribe(uint64_t c, uint64_t n)
{
    auto &client = g_clients[client_name(c)];
    if (!client) {
        client = std::make_unique<Client>();
        client->name = client_name(c);
    }
    if (client->subscriptions.size() > 12)
        return;
    auto to = topic(n);
    auto s = std::make_shared<Subscription>();
    s->filter = to->name + (n % 3 ? "" : "/+/priority>3");
    s->topic = to;
    client->subscriptions.push_back(s);
    to->subscriptions.push_back(s);
}

static void unsubscribe(uint64_t c)
{
    auto found = g_clients.find(client_name(c));
    if (found == g_clients.end() || found->second->subscriptions.empty())
        return;
    auto &all = found->second->subscriptions;
    all.erase(all.begin() + long(truth_random(all.size())));
}

static void publish(uint64_t now, uint64_t n)
{
    auto found = g_topics.find(topic_name(n));
    if (found == g_topics.end())
        return;
    Topic &to = *found->second;
    auto m = std::make_shared<Message>();
    m->id = g_messages++;
    m->topic = to.name;
    m->body.assign(truth_random(400), 'm');
    for (uint64_t i = truth_random(3); i > 0; i--)
        m->headers[i & 1 ? "content-type" : "x-correlation-identifier"] =
            i & 1 ? "text/plain" : "request-" + std::to_string(now * 7919);
    for (size_t i = 0; i < to.subscriptions.size();) {
        auto s = to.subscriptions[i].lock();
        if (!s) { /* its client has gone */
            to.subscriptions[i] = std::move(to.subscriptions.back());
            to.subscriptions.pop_back();
            continue;
        }
        s->queue.push_back(m);
        if (s->queue.size() > 40)
            s->queue.pop_front();
        i++;
    }
    if (truth_random(6) == 0) {
        to.retained.push_back(m);
        if (to.retained.size() > 12)
            to.retained.pop_front();
    }
    if (truth_random(3) == 0)
        g_deadlines.emplace(now + truth_random(30000), m);
}

static void deliver(uint64_t c)
{
    auto found = g_clients.find(client_name(c));
    if (found == g_clients.end())
        return;
    for (auto &s : found->second->subscriptions)
        for (int i = 0; i < 3 && !s->queue.empty(); i++) {
            if (truth_random(3) == 0)
                g_unacked[g_delivery++] = {s->queue.front(), found->first};
            s->delivered++;
            s->queue.pop_front();
        }
}

static void acknowledge()
{
    for (int i = 0; i < 8; i++)
        g_unacked.erase(g_delivery - 1 - truth_random(std::min<uint64_t>(g_delivery, 9000) + 1));
}

static void expire(uint64_t now)
{
    while (!g_deadlines.empty() && g_deadlines.begin()->first <= now) {
        if (auto m = g_deadlines.begin()->second.lock())
            m->headers["x-expired"] = "1";
        g_deadlines.erase(g_deadlines.begin());
    }
}

static void churn()
{
    for (uint64_t i = 0; i < 300000; i++) {
        uint64_t what = truth_random(1000);
        if (what < 60)
            subscribe(truth_random(CLIENTS), truth_random(TOPICS));
        else if (what < 95)
            unsubscribe(truth_random(CLIENTS));
        else if (what < 98)
            g_clients.erase(client_name(truth_random(CLIENTS)));
        else if (what < 99)
            g_topics.erase(topic_name(truth_random(TOPICS)));
        else if (what < 400)
            publish(i, truth_random(TOPICS));
        else if (what < 700)
            deliver(truth_random(CLIENTS));
        else
            acknowledge();
        if (i % 16 == 0)
            expire(i);
        if (i % 20000 == 0) /* those that nobody acknowledged in time */
            for (auto u = g_unacked.begin(); u != g_unacked.end();)
                u = u->first + 15000 < g_delivery ? g_unacked.erase(u) : std::next(u);
    }
}

/* --- truth -------------------------------------------------------------------------- */

/* Which messages and subscriptions the root at hand has got already. */
struct Once {
    unsigned char *told;
    size_t size;
    unsigned char bit = 1;

    bool message(const Message *m)
    {
        unsigned char &at = told[m->id];
        bool first = !(at & bit);
        at |= bit;
        return first;
    }
};

static void tell_message(const Tell &t, const MessagePtr &m, Once &once)
{
    t.nth(&m, 0);
    t.nth(&m, 1);
    if (!once.message(m.get()))
        return;
    t.block(m.get());
    t.string(m->topic);
    t.string(m->body);
    t.tree(m->headers);
    for (const auto &h : m->headers) {
        t.tree_node(&h);
        t.string(h.first);
        t.string(h.second);
        t.complete(&h);
    }
}

static void tell_subscription(const Tell &t, const std::shared_ptr<Subscription> &p, Once &once)
{
    const Subscription &s = *p;
    t.string(s.filter);
    t.block(Tell::at(&p, 1));
    t.list(s.queue);
    for (const MessagePtr &m : s.queue) {
        t.list_node(&m);
        tell_message(t, m, once);
        t.complete(&m);
    }
}

/* A topic without what its subscriptions lead to. */
static void tell_topic(const Tell &t, const std::shared_ptr<Topic> &p, Once &once)
{
    const Topic &topic = *p;
    t.block(Tell::at(&p, 1));
    t.string(topic.name);
    t.vector(topic.subscriptions);
    for (const auto &s : topic.subscriptions) {
        t.nth(&s, 1);
        if (!s.expired())
            t.nth(&s, 0);
        else
            t.block(Tell::at(&s, 1)); /* its memory is there until the topic forgets it */
    }
    t.deque(topic.retained);
    for (const MessagePtr &m : topic.retained)
        tell_message(t, m, once);
}

static void tell(void *)
{
    TELL_ROOT(g_topics);
    TELL_ROOT(g_clients);
    TELL_ROOT(g_deadlines);
    TELL_ROOT(g_unacked);
    Once once;
    once.size = g_messages;
    once.told = static_cast<unsigned char *>(
        mmap(nullptr, once.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));

    Tell topics = Tell::owner("g_topics");
    topics.hash(g_topics);
    for (const auto &i : g_topics) {
        topics.hash_node(&i);
        topics.string(i.first);
        topics.nth(&i.second, 0);
        topics.nth(&i.second, 1);
        topics.complete(&i);
        tell_topic(topics, i.second, once);
    }
    Tell from_topics = Tell::borrower("g_topics");
    /* Those whose topic was erased are reached by no topic. */
    for (const auto &c : g_clients)
        for (const auto &s : c.second->subscriptions)
            if (!s->topic.expired())
                tell_subscription(from_topics, s, once);

    once.bit <<= 1;
    Tell clients = Tell::owner("g_clients");
    clients.tree(g_clients);
    for (const auto &i : g_clients) {
        clients.tree_node(&i);
        clients.string(i.first);
        clients.unique(i.second);
        clients.complete(&i);
        clients.string(i.second->name);
        clients.vector(i.second->subscriptions);
        for (const auto &s : i.second->subscriptions) {
            clients.nth(&s, 0);
            clients.nth(&s, 1);
            clients.nth(&s->topic, 1);
            if (!s->topic.expired())
                clients.nth(&s->topic, 0);
            else
                clients.block(Tell::at(&s->topic, 1)); /* an erased one's memory */
            tell_subscription(clients, s, once);
        }
        clients.complete(i.second->subscriptions.data());
    }
    Tell from_clients = Tell::borrower("g_clients");
    for (const auto &i : g_topics) {
        bool subscribed = false;
        for (const auto &s : i.second->subscriptions)
            subscribed = subscribed || !s.expired();
        if (subscribed)
            tell_topic(from_clients, i.second, once);
    }

    once.bit <<= 1;
    Tell deadlines = Tell::owner("g_deadlines"), from_deadlines = Tell::borrower("g_deadlines");
    deadlines.tree(g_deadlines);
    for (const auto &i : g_deadlines) {
        deadlines.tree_node(&i);
        deadlines.nth(&i.second, 1);
        if (i.second.expired()) {
            deadlines.block(Tell::at(&i.second, 1)); /* only memory: the message is no more */
        } else {
            deadlines.nth(&i.second, 0);
            tell_message(from_deadlines, i.second.lock(), once);
        }
        deadlines.complete(&i);
    }

    once.bit <<= 1;
    Tell unacked = Tell::owner("g_unacked");
    unacked.hash(g_unacked);
    for (const auto &i : g_unacked) {
        unacked.hash_node(&i);
        tell_message(unacked, i.second.message, once);
        unacked.string(i.second.client);
        unacked.complete(&i);
    }
    munmap(once.told, once.size);
}

int main(int argc, char **argv)
{
    churn();
    truth_rest(argc, argv, tell, nullptr);
}
