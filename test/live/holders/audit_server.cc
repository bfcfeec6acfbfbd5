// audit_server.cc - accounts, orders that wait, and a log of what was done, of bounded length.
#include "truth_std.h"

namespace
{

struct Transfer {
    uint64_t from, to, amount;
    std::string text;
    void tell(const truth_holders &by) const
    {
        truth_tell(by, text);
    }
};

struct Account {
    uint64_t id;
    std::string owner, street;
    std::vector<Transfer> transfers;
    void tell(const truth_holders &by) const
    {
        truth_tell(by, owner, street, transfers);
    }
};

struct Order {
    Account *account; // nullptr once it is booked
    std::string goods;
    std::vector<uint32_t> numbers;
    void tell(const truth_holders &by) const
    {
        truth_tell(by, account, goods, numbers);
    }
};

std::map<uint64_t, Account> g_accounts;
std::unordered_map<std::string, Account *> g_by_owner;
std::deque<std::string> g_audit;
std::vector<Order> g_orders;

void log(const char *what, uint64_t id, const std::string &text)
{
    g_audit.push_back(std::string(what) + " " + std::to_string(id) + " " + text);
    if (g_audit.size() > 12000)
        g_audit.pop_front();
}

Account &open_account(uint64_t id)
{
    Account &account = g_accounts[id];
    if (account.owner.empty()) {
        account.id = id;
        account.owner = "owner" + std::to_string(id) + (id % 4 ? "" : " and sons, solicitors");
        account.street = std::to_string(id % 200) + " High Street";
        g_by_owner[account.owner] = &account;
        log("open", id, account.owner);
    }
    return account;
}

void close_account(uint64_t id)
{
    auto found = g_accounts.find(id);
    if (found == g_accounts.end())
        return;
    for (Order &order : g_orders)
        if (order.account == &found->second)
            order.account = nullptr;
    log("close", id, found->second.street);
    g_by_owner.erase(found->second.owner);
    g_accounts.erase(found);
}

void transfer(uint64_t from, uint64_t to)
{
    Account &a = open_account(from), &b = open_account(to);
    Transfer made{from, to, truth_random(100000),
                  "invoice " + std::to_string(truth_random(1u << 30))};
    a.transfers.push_back(made);
    b.transfers.push_back(std::move(made));
    if (a.transfers.size() > 12)
        a.transfers.erase(a.transfers.begin(), a.transfers.begin() + 6);
    if (b.transfers.size() > 12)
        b.transfers.resize(5);
}

void order(uint64_t id)
{
    if (g_orders.size() < 3000) {
        g_orders.push_back({&open_account(id), "goods of kind " + std::to_string(id), {}});
        for (uint64_t n = truth_random(9); n > 0; n--)
            g_orders.back().numbers.push_back(uint32_t(truth_random(1000)));
    } else {
        std::swap(g_orders[truth_random(g_orders.size())], g_orders.back());
        log("booked", id, g_orders.back().goods);
        g_orders.pop_back();
    }
}

void tell(void *)
{
    TRUTH_ROOT(g_accounts);
    TRUTH_ROOT(g_by_owner);
    TRUTH_ROOT(g_audit);
    TRUTH_ROOT(g_orders);
    truth_tell(g_accounts, {{"g_accounts"}, {"g_by_owner", "g_orders"}}); // by links from one node
    truth_tell(g_by_owner, {{"g_by_owner"}, {}});
    truth_tell(g_audit, {{"g_audit"}, {}});
    truth_tell(g_orders, {{"g_orders"}, {}});
}

} // namespace

int main(int argc, char **argv)
{
    for (int i = 0; i < 300000; i++) {
        uint64_t id = truth_random(4000);
        switch (truth_random(16)) {
        case 0:
            close_account(id);
            break;
        case 1 ... 5:
            order(id);
            break;
        default:
            transfer(id, truth_random(4000));
        }
    }
    truth_rest(argc, argv, tell, nullptr);
}
