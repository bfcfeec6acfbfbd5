// steady_server.cc - a server that churns and in which nothing changes hands: users, their sessions
// with mail, subjects that people follow, a log, counts; four threads, one lock for each table.
#include "steady.h"

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>

struct User {
    std::string name, mail;
    std::vector<std::string> tags;
    std::map<std::string, std::string> settings;
};

struct Session {
    uint64_t id = 0;
    std::string peer;
    std::deque<std::string> mail;
    std::vector<char> buffer;
};

static std::unordered_map<std::string, User> g_users;
static std::map<uint64_t, std::unique_ptr<Session>> g_sessions;
static std::unordered_map<std::string, std::set<std::string>> g_follows;
static std::deque<std::string> g_log;
static std::map<std::string, uint64_t> g_counts;
static std::mutex users_lock, sessions_lock, follows_lock, log_lock;

static void users(Dice &dice)
{
    std::lock_guard<std::mutex> lock(users_lock);
    std::string key = "user" + std::to_string(dice(8000));
    if (dice(4) == 0) {
        g_users.erase(key);
        return;
    }
    User &user = g_users[key];
    user.name = words(dice, "name ");
    user.mail = key + "@example.org";
    if (user.tags.size() > 6)
        user.tags.clear();
    user.tags.push_back(words(dice, "tag "));
    user.settings["setting " + std::to_string(dice(5))] = words(dice, "value ");
}

static void sessions(Dice &dice)
{
    std::lock_guard<std::mutex> lock(sessions_lock);
    uint64_t id = dice(3000);
    auto at = g_sessions.find(id);
    if (at != g_sessions.end() && dice(6) == 0) {
        g_sessions.erase(at);
        return;
    }
    std::unique_ptr<Session> &session = g_sessions[id];
    if (!session) {
        session = std::make_unique<Session>();
        session->id = id;
        session->peer = words(dice, "peer ");
    }
    session->mail.push_back(words(dice, "mail "));
    if (session->mail.size() > 9)
        session->mail.pop_front();
    session->buffer.resize(200 + dice(1500));
}

static void follows(Dice &dice)
{
    std::lock_guard<std::mutex> lock(follows_lock);
    std::set<std::string> &who = g_follows["subject " + std::to_string(dice(900))];
    who.insert(words(dice, "follower "));
    if (who.size() > 24)
        who.erase(who.begin());
}

static void note(Dice &dice)
{
    std::lock_guard<std::mutex> lock(log_lock);
    g_log.push_back(words(dice, "line "));
    if (g_log.size() > 15000)
        g_log.pop_front();
    g_counts["count " + std::to_string(dice(500))]++;
}

int main()
{
    live_steadily(4, [](Dice &dice) {
        switch (dice(4)) {
        case 0:
            return users(dice);
        case 1:
            return sessions(dice);
        case 2:
            return follows(dice);
        default:
            return note(dice);
        }
    });
}
