/* w_shop.cc - a shop: customers with carts, orders that are paid in one way or another, and a log of
 * what happened, whose entries say each something else.
 */
#include "truth_std.h"

struct Address {
    std::string street, town;

    void tell(const truth_holders &by) const
    {
        truth_tell(by, street, town);
    }
};

struct Offer {
    uint64_t number;
    std::string title;
    std::vector<uint32_t> prices;

    void tell(const truth_holders &by) const
    {
        truth_tell(by, title, prices);
    }
};

struct Item {
    std::shared_ptr<Offer> offer;
    uint32_t count;

    void tell(const truth_holders &by) const
    {
        truth_tell(by, offer);
    }
};

struct Card {
    uint64_t number;
    std::string name;

    void tell(const truth_holders &by) const
    {
        truth_tell(by, name);
    }
};

struct Transfer {
    std::string bank;
    double fee;

    void tell(const truth_holders &by) const
    {
        truth_tell(by, bank);
    }
};

struct Voucher {
    std::unique_ptr<std::string> text;
    std::vector<uint16_t> digits;

    void tell(const truth_holders &by) const
    {
        truth_tell(by, text, digits);
    }
};

using Payment = std::variant<std::monostate, Card, Transfer, Voucher>;

struct Customer {
    uint64_t number = 0;
    std::string name;
    std::optional<Address> address;
    std::optional<std::vector<Item>> cart;

    void tell(const truth_holders &by) const
    {
        truth_tell(by, name, address, cart);
    }
};

struct Order {
    std::vector<Item> items;
    Payment payment;
    std::optional<Address> other;
    std::unique_ptr<std::string> note;

    void tell(const truth_holders &by) const
    {
        truth_tell(by, items, payment, other, note);
    }
};

struct Event {
    uint64_t when;
    std::variant<uint64_t, std::string, Address, std::vector<std::string>, double> what;

    void tell(const truth_holders &by) const
    {
        truth_tell(by, what);
    }
};

static std::unordered_map<uint64_t, std::unique_ptr<Customer>> g_customers;
static std::map<uint64_t, Order> g_orders;
static std::vector<std::shared_ptr<Offer>> g_offers;
static std::deque<Event> g_events;
static std::vector<Payment> g_refunds(400);
static uint64_t g_now, g_next;

static std::string words(const char *what, uint64_t below)
{
    return what + std::to_string(truth_random(below)) + (truth_random(3) ? "" : " and some more words");
}

static Address somewhere()
{
    return {words("a street with number ", 5000), words("town ", 300)};
}

static Item some_item()
{
    return {g_offers[truth_random(g_offers.size())], uint32_t(1 + truth_random(5))};
}

static void renew_offer()
{
    auto offer = std::make_shared<Offer>();
    offer->number = g_now;
    offer->title = words("an offer of the week ", 9000);
    for (uint64_t i = truth_random(20); i > 0; i--)
        offer->prices.push_back(uint32_t(i));
    if (g_offers.size() < 800)
        g_offers.push_back(std::move(offer));
    else
        g_offers[truth_random(g_offers.size())] = std::move(offer);
}

static Payment pay()
{
    switch (truth_random(4)) {
    case 0:
        return Card{truth_random(1000000), words("a card of somebody with the name ", 900)};
    case 1:
        return Transfer{words("the bank at the corner ", 60), 1.5};
    case 2:
        return Voucher{std::make_unique<std::string>(words("a voucher of the year ", 3000)),
                       std::vector<uint16_t>(1 + truth_random(12))};
    }
    return {};
}

static Customer *any_customer()
{
    auto at = g_customers.find(truth_random(g_next + 1));
    return at == g_customers.end() ? nullptr : at->second.get();
}

static void enter()
{
    auto c = std::make_unique<Customer>();
    c->number = g_next++;
    c->name = words("customer ", 100000);
    if (truth_random(2))
        c->address = somewhere();
    g_customers[c->number] = std::move(c);
}

static void order(Customer *c)
{
    if (!c->cart || c->cart->empty())
        return;
    Order &o = g_orders[g_now];
    o.items = std::move(*c->cart);
    c->cart.reset();
    if (truth_random(3) == 0)
        o.other = somewhere();
    if (truth_random(5) == 0)
        o.note = std::make_unique<std::string>(words("please ring at the door of ", 700));
    if (truth_random(4))
        o.payment = pay();
}

static void note(uint64_t what)
{
    Event e{g_now, uint64_t(g_now)};
    if (what % 5 == 1)
        e.what = words("something happened ", 70000);
    else if (what % 5 == 2)
        e.what = somewhere();
    else if (what % 5 == 3)
        e.what = std::vector<std::string>(1 + truth_random(4), words("several things ", 900));
    else if (what % 5 == 4)
        e.what = 0.25 * double(what);
    g_events.push_back(std::move(e));
    if (g_events.size() > 4000)
        g_events.pop_front();
}

static void churn()
{
    for (int i = 0; i < 800; i++)
        renew_offer();
    for (g_now = 0; g_now < 300000; g_now++) {
        const uint64_t what = truth_random(100);
        Customer *c = any_customer();
        if (what < 6 || g_customers.size() < 2000) {
            enter();
        } else if (what < 10) {
            renew_offer();
        } else if (what < 14 && g_customers.size() > 4000 && c) {
            g_customers.erase(c->number);
        } else if (what < 40 && c) {
            if (!c->cart)
                c->cart.emplace();
            if (c->cart->size() < 12)
                c->cart->push_back(some_item());
        } else if (what < 55 && c) {
            order(c);
        } else if (what < 62 && c) {
            if (c->address)
                c->address.reset();
            else
                c->address = somewhere();
        } else if (what < 66 && c) {
            c->cart.reset();
        } else if (what < 76 && !g_orders.empty()) {
            auto o = g_orders.lower_bound(truth_random(g_now));
            if (o != g_orders.end()) {
                g_refunds[truth_random(g_refunds.size())] = std::move(o->second.payment);
                if (truth_random(3) == 0 || g_orders.size() > 3000)
                    g_orders.erase(o);
                else
                    o->second.payment = pay();
            }
        } else {
            note(what);
        }
    }
}

/* --- truth -------------------------------------------------------------------------- */

static void tell(void *)
{
    TRUTH_ROOT(g_customers);
    TRUTH_ROOT(g_orders);
    TRUTH_ROOT(g_offers);
    TRUTH_ROOT(g_events);
    TRUTH_ROOT(g_refunds);
    for (const void *root : {(void *)&g_customers, (void *)&g_orders, (void *)&g_offers,
                             (void *)&g_events, (void *)&g_refunds})
        truth_words(root);
    truth_tell(g_customers, {{"g_customers"}, {}});
    truth_tell(g_orders, {{"g_orders"}, {}});
    truth_tell(g_offers, {{"g_offers"}, {}});
    truth_tell(g_events, {{"g_events"}, {}});
    truth_tell(g_refunds, {{"g_refunds"}, {}});
}

int main(int argc, char **argv)
{
    churn();
    truth_rest(argc, argv, tell, nullptr);
}
