/* v_search.cc - an inverted index: terms lead to postings, postings to documents, which a table by
 * number shares; a cache of rankings, what was shown last, and a log of questions.
 */
#include "truth_std.h"

/* What a root tells once, however many pointers lead there. */
static unsigned g_pass;

struct Document {
    uint64_t number = 0;
    std::string title, body;
    std::vector<uint32_t> terms;
    std::optional<std::string> language;
    mutable unsigned told = 0;

    void tell(const truth_holders &by) const
    {
        truth_tell(by, title, body, terms, language);
    }
};

struct Reference : std::shared_ptr<Document> {
    using std::shared_ptr<Document>::shared_ptr;

    void tell(const truth_holders &by) const
    {
        truth_word_range(this, 0, 2);
        if (!*this || get()->told == g_pass)
            return;
        get()->told = g_pass;
        truth_tell(static_cast<const std::shared_ptr<Document> &>(*this), by);
    }
};

struct Posting {
    Reference document;
    uint32_t count = 0;
    std::vector<uint16_t> positions;

    void tell(const truth_holders &by) const
    {
        truth_tell(by, document, positions);
    }
};

struct Hit {
    float score;
    Reference document;

    void tell(const truth_holders &by) const
    {
        truth_tell(by, document);
    }
};

struct Failure {
    int code;
    std::string message;

    void tell(const truth_holders &by) const
    {
        truth_tell(by, message);
    }
};

using Facets = std::map<std::string, uint32_t>;
using Result = std::variant<std::monostate, std::vector<Hit>, Failure, Facets>;

struct Ranking {
    Result result;
    std::optional<std::string> next_page;
    std::optional<Hit> best;
    uint64_t when = 0;

    void tell(const truth_holders &by) const
    {
        truth_tell(by, result, next_page, best);
    }
};

struct Question {
    std::string text;
    uint64_t when;
    std::optional<std::vector<std::string>> filters;

    void tell(const truth_holders &by) const
    {
        truth_tell(by, text, filters);
    }
};

static std::unordered_map<std::string, std::vector<Posting>> g_index;
static std::map<uint64_t, Reference> g_documents;
static std::unordered_map<std::string, Ranking> g_rankings;
static std::vector<std::weak_ptr<Document>> g_shown(600);
static std::deque<Question> g_log;
static uint64_t g_now, g_next;

static std::string term(uint64_t n)
{
    return (n % 3 ? "term" : "an-expression-of-several-words-") + std::to_string(n);
}

static uint64_t some_term()
{
    return truth_random(truth_random(3) ? 400 : 6000);
}

static void add()
{
    Reference d(new Document);
    if (truth_random(2))
        static_cast<std::shared_ptr<Document> &>(d) = std::make_shared<Document>();
    d->number = g_next++;
    d->title = "Document " + std::to_string(d->number);
    d->body.assign(30 + truth_random(500), 'b');
    if (truth_random(3) == 0)
        d->language = truth_random(2) ? "en" : "a language that has a long name";
    for (uint64_t i = 4 + truth_random(10); i > 0; i--) {
        uint32_t t = uint32_t(some_term());
        d->terms.push_back(t);
        Posting p{d, uint32_t(i), {}};
        for (uint64_t k = truth_random(4); k > 0; k--)
            p.positions.push_back(uint16_t(truth_random(1000)));
        g_index[term(t)].push_back(std::move(p));
    }
    g_documents.emplace(d->number, std::move(d));
}

static Reference any()
{
    auto at = g_documents.lower_bound(truth_random(g_next));
    return at == g_documents.end() ? Reference() : at->second;
}

static void remove(const Reference &d)
{
    for (uint32_t t : d->terms) {
        auto list = g_index.find(term(t));
        if (list == g_index.end())
            continue;
        auto &postings = list->second;
        for (size_t i = 0; i < postings.size();)
            if (postings[i].document == d) {
                postings[i] = std::move(postings.back());
                postings.pop_back();
            } else {
                i++;
            }
        if (postings.empty())
            g_index.erase(list);
    }
    g_documents.erase(d->number);
}

static void rank(uint64_t t)
{
    Ranking &r = g_rankings[term(t) + "/" + std::to_string(truth_random(4))];
    r.when = g_now;
    auto list = g_index.find(term(t));
    if (list == g_index.end()) {
        r.result = Failure{404, "nothing was found for " + term(t)};
        r.best.reset();
        r.next_page.reset();
        return;
    }
    if (truth_random(4) == 0) {
        Facets facets;
        for (const Posting &p : list->second)
            facets[p.document->language.value_or("unknown language")]++;
        r.result = std::move(facets);
        return;
    }
    std::vector<Hit> hits;
    for (const Posting &p : list->second)
        if (hits.size() < 12)
            hits.push_back({float(p.count), p.document});
    r.best = hits.front();
    g_shown[truth_random(g_shown.size())] = hits.back().document;
    if (hits.size() == 12)
        r.next_page = "page-2-of-" + term(t);
    else
        r.next_page.reset();
    r.result = std::move(hits);
}

static void ask(uint64_t t)
{
    Question q{"what is " + term(t), g_now, {}};
    if (truth_random(4) == 0) {
        q.filters.emplace();
        for (uint64_t i = 1 + truth_random(3); i > 0; i--)
            q.filters->push_back("language=" + term(truth_random(50)));
    }
    g_log.push_back(std::move(q));
    if (g_log.size() > 3000)
        g_log.pop_front();
}

static void forget()
{
    for (auto i = g_rankings.begin(); i != g_rankings.end();)
        i = i->second.when + 20000 < g_now ? g_rankings.erase(i) : std::next(i);
}

static void churn()
{
    for (int i = 0; i < 3000; i++)
        add();
    for (g_now = 0; g_now < 300000; g_now++) {
        uint64_t what = truth_random(100);
        if (what < 12) {
            add();
        } else if (what < 24) {
            if (Reference d = any(); d)
                remove(d);
        } else if (what < 40) {
            if (Reference d = any(); d)
                d->body.append(truth_random(40), 'c');
        } else if (what < 50) {
            if (Reference d = any(); d)
                d->language = "the language " + std::to_string(truth_random(30));
        } else if (what < 65) {
            rank(some_term());
        } else if (what < 80) {
            ask(some_term());
        } else if (auto list = g_index.find(term(some_term())); list != g_index.end()) {
            auto &p = list->second;
            std::swap(p.front(), p[truth_random(p.size())]);
        }
        if (g_now % 1000 == 999)
            forget();
    }
}

/* --- truth -------------------------------------------------------------------------- */

static void tell(void *)
{
    TRUTH_ROOT(g_index);
    TRUTH_ROOT(g_documents);
    TRUTH_ROOT(g_rankings);
    TRUTH_ROOT(g_shown);
    TRUTH_ROOT(g_log);
    for (const void *root : {(void *)&g_index, (void *)&g_documents, (void *)&g_rankings,
                             (void *)&g_shown, (void *)&g_log})
        truth_words(root);

    g_pass++;
    truth_tell(g_index, {{"g_index"}, {}});
    g_pass++;
    truth_tell(g_documents, {{"g_documents"}, {}});
    g_pass++;
    truth_tell(g_rankings, {{"g_rankings"}, {}});
    truth_tell(g_log, {{"g_log"}, {}});

    /* Where a document is gone but its memory is not, the weak pointer is what keeps it. */
    truth_word_range(&g_shown, 0, 3);
    truth_block(g_shown.data(), {{"g_shown"}, {}});
    for (const auto &shown : g_shown) {
        const void *const *words = truth_words_of(&shown);
        truth_word(words + 1);
        truth_owns(words[1], "g_shown");
        if (shown.expired()) {
            truth_words(words[1]);
            continue;
        }
        truth_word(words);
        truth_borrows(words[0], "g_shown");
        static_cast<const Document *>(words[0])->tell({{}, {"g_shown"}});
    }
}

int main(int argc, char **argv)
{
    churn();
    truth_rest(argc, argv, tell, nullptr);
}
