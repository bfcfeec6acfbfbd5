// sessions.cc - a web application's sessions by number and the set of names that it has seen.
#include "truth_std.h"

namespace
{

struct Profile {
    std::string name, mail;
    std::vector<std::string> groups;
    void tell(const truth_holders &by) const
    {
        truth_tell(by, name, mail, groups);
    }
};

struct Session {
    uint64_t id, seen;
    std::string token;
    std::shared_ptr<Profile> profile;
    std::map<std::string, std::string> values;
    Session(uint64_t number) : id(number), seen(0), token(std::to_string(number * 7919))
    {
    }
    void tell(const truth_holders &by) const
    {
        truth_tell(by, token, profile, values);
    }
};

std::unordered_map<uint64_t, std::shared_ptr<Session>> g_sessions;
std::set<std::string> g_names;

std::string name_of(uint64_t i)
{
    static const char *const family[] = {"smith", "featherstonehaugh", "li", "montgomery",
                                         "garcia"};
    return std::string(family[i % 5]) + "." + std::to_string(i);
}

void log_in(uint64_t id)
{
    auto session = std::make_shared<Session>(id);
    auto profile = std::make_shared<Profile>();
    profile->name = name_of(truth_random(40000));
    profile->mail = profile->name + "@" + (id % 3 ? "example.org" : "mail.department.example.com");
    for (uint64_t n = truth_random(4); n > 0; n--)
        profile->groups.push_back("group" + std::to_string(truth_random(900000)));
    g_names.insert(profile->name);
    session->profile = std::move(profile);
    g_sessions[id] = std::move(session);
}

void serve(uint64_t id)
{
    auto found = g_sessions.find(id);
    if (found == g_sessions.end())
        return log_in(id);
    std::shared_ptr<Session> session = found->second;
    switch (truth_random(8)) {
    case 0:
    case 1:
        g_sessions.erase(found);
        break;
    case 2:
        session->values["cart"] += "item " + std::to_string(truth_random(1000)) + ";";
        break;
    case 3:
        session->values["page " + std::to_string(truth_random(20))] = name_of(truth_random(99));
        break;
    case 4:
        session->values.clear();
        break;
    case 5:
        g_names.erase(name_of(truth_random(40000)));
        break;
    case 6: {
        // A new token; the old one goes with its session.
        auto renewed = std::make_shared<Session>(id + 1000000);
        renewed->profile = session->profile;
        renewed->values = std::move(session->values);
        renewed->id = id;
        found->second = std::move(renewed);
        break;
    }
    default:
        session->seen++;
    }
}

void tell(void *)
{
    TRUTH_ROOT(g_sessions);
    truth_tell(g_sessions, {{"g_sessions"}, {}});
    TRUTH_ROOT(g_names);
    truth_tell(g_names, {{"g_names"}, {}});
}

} // namespace

int main(int argc, char **argv)
{
    for (int i = 0; i < 300000; i++)
        serve(truth_random(12000));
    truth_rest(argc, argv, tell, nullptr);
}
