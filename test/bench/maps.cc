// maps.cc - a server's heap in maps, for the benchmark: accounts by name, their sessions by number, and
// what each session holds, all behind one another as they came.
//
//     maps [BLOCKS]     about so many (5,000,000), then "ready" until its standard input ends
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <unistd.h>
#include <unordered_map>
#include <vector>

namespace
{

struct session {
    std::string token;
    std::map<uint32_t, std::string> properties;
    std::vector<uint64_t> seen;
    std::shared_ptr<std::string> agent;
};

struct account {
    std::string name, mail;
    std::unordered_map<uint64_t, std::unique_ptr<session>> sessions;
    std::map<std::string, uint64_t> quotas;
};

struct server {
    std::map<std::string, std::unique_ptr<account>> accounts;
    std::unordered_map<uint64_t, session *> by_number;
    std::vector<std::shared_ptr<std::string>> agents;
} *the_server;

uint64_t state = 1;

uint64_t draw(uint64_t below)
{
    state = state * 6364136223846793005 + 1442695040888963407;
    return (state >> 33) % below;
}

std::string text(size_t least, size_t most)
{
    std::string made(least + draw(most - least), 'x');
    for (char &c : made)
        c = static_cast<char>('a' + draw(26));
    return made;
}

// Returns how many blocks it made, about.
size_t open_session(account &owner, uint64_t number)
{
    auto made = std::make_unique<session>();
    size_t blocks = 5;
    made->token = text(24, 40);
    for (uint64_t n = draw(6); n > 0; n--, blocks += 2)
        made->properties[static_cast<uint32_t>(draw(1000))] = text(17, 60);
    for (uint64_t n = draw(20); n > 0; n--)
        made->seen.push_back(draw(1000000));
    made->agent = the_server->agents[draw(the_server->agents.size())];
    the_server->by_number[number] = made.get();
    owner.sessions[number] = std::move(made);
    return blocks;
}

account &find_account(uint64_t number)
{
    auto &place = the_server->accounts["account-" + std::to_string(number)];
    if (!place) {
        place = std::make_unique<account>();
        place->name = text(4, 30);
        place->mail = text(16, 40);
        for (uint64_t n = draw(4); n > 0; n--)
            place->quotas[text(8, 24)] = draw(1000);
    }
    return *place;
}

} // namespace

int main(int argc, char **argv)
{
    const size_t wanted = argc > 1 ? strtoull(argv[1], nullptr, 10) : 5000000;
    the_server = new server;
    for (int i = 0; i < 200; i++)
        the_server->agents.push_back(std::make_shared<std::string>(text(60, 120)));
    uint64_t number = 0;
    for (size_t blocks = 0; blocks < wanted; number++) {
        account &owner = find_account(draw(wanted / 60 + 1));
        blocks += open_session(owner, number);
        if (draw(8) == 0 && !owner.sessions.empty()) { // one ends
            auto gone = owner.sessions.begin();
            the_server->by_number.erase(gone->first);
            owner.sessions.erase(gone);
        }
    }
    puts("ready");
    fflush(stdout);
    char rest[64];
    while (read(0, rest, sizeof rest) > 0)
        ;
    _exit(0);
}
