/* u_compiler.cc - the front end of a compiler in an editor: functions are parsed again after each
 * edit, names resolved, constants folded; all symbols are in an index, messages point into the
 * source.
 */
#include "u_tell.h"

#include <optional>
#include <string_view>
#include <unordered_map>
#include <variant>

enum class Type { integer, text, boolean };

struct Expr;
struct Stmt;
struct Scope;
struct Function;
using ExprPtr = std::unique_ptr<Expr>;
using StmtPtr = std::unique_ptr<Stmt>;

struct Symbol {
    std::string name;
    Scope *scope = nullptr;
    const Expr *initial = nullptr;
    std::optional<Type> type;
    unsigned uses = 0;
};

struct Scope {
    Scope *parent = nullptr;
    Function *function = nullptr;
    std::unordered_map<std::string, std::unique_ptr<Symbol>> names;
};

struct Number {
    int64_t value;
};
struct Text {
    std::string value;
};
struct Name {
    std::string_view text;
    Symbol *symbol;
};
struct Binary {
    char op;
    ExprPtr left, right;
};
struct Call {
    std::string_view callee;
    std::vector<ExprPtr> arguments;
};

struct Expr {
    std::variant<Number, Text, Name, Binary, Call> node;
    std::optional<Type> type;
    uint32_t line = 0;
};

struct Let {
    Symbol *symbol;
    ExprPtr value;
};
struct If {
    ExprPtr condition;
    std::unique_ptr<Scope> scope;
    std::vector<StmtPtr> body;
};
struct Return {
    ExprPtr value;
};

struct Stmt {
    std::variant<Let, If, Return, ExprPtr> node;
    uint32_t line = 0;
};

struct Function {
    std::string name;
    std::string source;
    std::vector<std::string_view> parameters;
    Scope scope;
    std::vector<StmtPtr> body;
    std::vector<bool> reachable; /* a bit for each line */
    std::optional<std::string> comment;
};

struct Diagnostic {
    std::string message;
    std::string_view where;
    const Function *function;
};

static std::unordered_map<std::string, std::unique_ptr<Function>> g_functions;
static std::unordered_multimap<std::string_view, Symbol *> g_symbols;
static std::vector<Diagnostic> g_diagnostics;
static std::vector<std::string> g_names; /* of functions, for those who edit */
static uint64_t g_made;

/* --- an editor: sources ------------------------------------------------------------- */

static void write_expr(std::string &s, int depth)
{
    static const char *const names[] = {
        "a",         "b", "count", "total", "offset_of_first_element", "number_of_rows_in_table",
        "undeclared"};
    switch (truth_random(depth > 3 ? 3 : 6)) {
    case 0:
        s += std::to_string(truth_random(1000));
        break;
    case 1:
    case 2:
        s += names[truth_random(7)];
        break;
    case 3:
        if (truth_random(3) == 0) {
            s += "'a literal with " + std::to_string(truth_random(100)) + "'";
            break;
        }
        s += "f" + std::to_string(truth_random(900)) + "(";
        write_expr(s, depth + 1);
        s += ",";
        write_expr(s, depth + 1);
        s += ")";
        break;
    default:
        s += "(";
        write_expr(s, depth + 1);
        s += "+-*/"[truth_random(4)];
        write_expr(s, depth + 1);
        s += ")";
    }
}

static void write_block(std::string &s, int depth)
{
    static const char *const names[] = {"count", "total", "offset_of_first_element",
                                        "number_of_rows_in_table"};
    for (uint64_t i = 1 + truth_random(4); i > 0; i--) {
        uint64_t what = truth_random(8);
        if (what < 4) {
            s += std::string("let ") + names[truth_random(4)] + "=";
            write_expr(s, 0);
        } else if (what < 6 || depth > 2) {
            write_expr(s, 0);
        } else {
            s += "if ";
            write_expr(s, 1);
            s += "{\n";
            write_block(s, depth + 1);
            s += "}";
        }
        s += "\n";
    }
}

static std::string write_function()
{
    std::string s;
    write_block(s, 0);
    s += "return ";
    write_expr(s, 1);
    s += "\n";
    return s;
}

/* --- the parser --------------------------------------------------------------------- */

class Parser
{
  public:
    explicit Parser(Function &function) : f(function), p(function.source)
    {
    }
    void run()
    {
        f.scope.function = &f;
        for (const char *name : {"a", "b"}) {
            f.parameters.push_back(name);
            declare(&f.scope, name, nullptr);
        }
        block(&f.scope, f.body);
        f.reachable.assign(line, true);
        f.reachable.push_back(false);
    }

  private:
    bool take(std::string_view word)
    {
        if (p.compare(0, word.size(), word) != 0)
            return false;
        p.remove_prefix(word.size());
        return true;
    }
    std::string_view word()
    {
        size_t n = 0;
        while (n < p.size() && (isalnum(p[n]) || p[n] == '_'))
            n++;
        auto w = p.substr(0, n);
        p.remove_prefix(n);
        return w;
    }
    Symbol *declare(Scope *scope, std::string_view name, const Expr *initial)
    {
        auto &at = scope->names[std::string(name)];
        if (!at) {
            at = std::make_unique<Symbol>();
            at->name = name;
            at->scope = scope;
            g_symbols.emplace(at->name, at.get());
        }
        at->initial = initial;
        if (initial)
            at->type = initial->type;
        return at.get();
    }
    Symbol *resolve(Scope *scope, std::string_view name)
    {
        std::string key(name);
        for (; scope; scope = scope->parent) {
            auto found = scope->names.find(key);
            if (found != scope->names.end()) {
                found->second->uses++;
                return found->second.get();
            }
        }
        if (g_diagnostics.size() < 3000)
            g_diagnostics.push_back({"'" + key + "' is not declared in " + f.name, name, &f});
        return nullptr;
    }
    ExprPtr expr(Scope *scope)
    {
        auto e = std::make_unique<Expr>();
        e->line = line;
        if (take("(")) {
            Binary b{};
            b.left = expr(scope);
            b.op = p[0];
            p.remove_prefix(1);
            b.right = expr(scope);
            take(")");
            auto *l = std::get_if<Number>(&b.left->node), *r = std::get_if<Number>(&b.right->node);
            if (l && r && b.op == '+') /* folded: both operands go */
                e->node = Number{l->value + r->value};
            else
                e->node = std::move(b);
            e->type = Type::integer;
        } else if (take("'")) {
            auto end = p.find('\'');
            e->node = Text{std::string(p.substr(0, end))};
            e->type = Type::text;
            p.remove_prefix(end + 1);
        } else if (isdigit(p[0])) {
            e->node = Number{strtol(p.data(), nullptr, 10)};
            e->type = Type::integer;
            word();
        } else {
            auto name = word();
            if (take("(")) {
                Call call;
                call.callee = name;
                do
                    call.arguments.push_back(expr(scope));
                while (take(","));
                take(")");
                e->node = std::move(call);
            } else {
                Symbol *symbol = resolve(scope, name);
                e->node = Name{name, symbol};
                if (symbol)
                    e->type = symbol->type;
            }
        }
        return e;
    }
    void block(Scope *scope, std::vector<StmtPtr> &body)
    {
        while (!p.empty() && !take("}")) {
            auto s = std::make_unique<Stmt>();
            s->line = line;
            if (take("let ")) {
                auto name = word();
                take("=");
                auto value = expr(scope);
                Symbol *symbol = declare(scope, name, value.get());
                s->node = Let{symbol, std::move(value)};
            } else if (take("if ")) {
                If branch;
                branch.condition = expr(scope);
                branch.scope = std::make_unique<Scope>();
                branch.scope->parent = scope;
                branch.scope->function = &f;
                take("{\n");
                line++;
                block(branch.scope.get(), branch.body);
                s->node = std::move(branch);
            } else if (take("return ")) {
                s->node = Return{expr(scope)};
            } else {
                s->node = expr(scope);
            }
            take("\n");
            line++;
            body.push_back(std::move(s));
        }
    }

    Function &f;
    std::string_view p;
    uint32_t line = 0;
};

/* --- churn -------------------------------------------------------------------------- */

static void forget_scope(Scope &scope)
{
    for (auto &i : scope.names) {
        auto range = g_symbols.equal_range(i.second->name);
        for (auto s = range.first; s != range.second; ++s)
            if (s->second == i.second.get()) {
                g_symbols.erase(s);
                break;
            }
    }
    scope.names.clear();
}

static void forget_body(std::vector<StmtPtr> &body)
{
    for (auto &s : body)
        if (auto *branch = std::get_if<If>(&s->node)) {
            forget_body(branch->body);
            forget_scope(*branch->scope);
        }
}

static void forget(Function &f)
{
    for (size_t i = 0; i < g_diagnostics.size();)
        if (g_diagnostics[i].function == &f) {
            g_diagnostics[i] = std::move(g_diagnostics.back());
            g_diagnostics.pop_back();
        } else {
            i++;
        }
    forget_body(f.body);
    forget_scope(f.scope);
    f.body.clear();
    f.parameters.clear();
}

static void edit(const std::string &name)
{
    auto &f = g_functions[name];
    if (!f) {
        f = std::make_unique<Function>();
        f->name = name;
        if (truth_random(2))
            f->comment = "The " + std::to_string(g_made) + "th function; it has no purpose.";
    } else {
        forget(*f);
    }
    f->source = write_function();
    Parser(*f).run();
}

static void churn()
{
    for (int i = 0; i < 300000; i++) {
        uint64_t what = truth_random(1000);
        if (g_names.size() < 300 || what < 7) {
            g_names.push_back((g_made % 3 ? "f" : "namespace_of_the_module::function_") +
                              std::to_string(g_made));
            g_made++;
            edit(g_names.back());
        } else if (what < 10) {
            size_t n = truth_random(g_names.size());
            auto found = g_functions.find(g_names[n]);
            forget(*found->second);
            g_functions.erase(found);
            g_names[n] = std::move(g_names.back());
            g_names.pop_back();
        } else if (what < 60) {
            edit(g_names[truth_random(g_names.size())]);
        } else if (what < 600) {
            auto found = g_functions.find(g_names[truth_random(g_names.size())]);
            if (found->second->comment && what < 100)
                found->second->comment.reset();
        } else {
            auto found = g_symbols.find("count");
            if (found != g_symbols.end())
                found->second->uses++;
        }
    }
}

/* --- truth -------------------------------------------------------------------------- */

static void tell_scope(const Tell &t, const Scope &scope)
{
    t.word(&scope.parent);
    t.word(&scope.function);
    t.hash(scope.names);
    for (const auto &i : scope.names) {
        t.hash_node(&i);
        t.string(i.first);
        t.unique(i.second);
        t.complete(&i);
        t.string(i.second->name);
        t.word(&i.second->scope);
        t.word(&i.second->initial);
        t.complete(i.second.get());
    }
}

/* The word of a view is told if it points into the heap: names of parameters are literals. */
static void tell_view(const Tell &t, const std::string_view &view, const Function &f)
{
    if (view.data() >= f.source.data() && view.data() <= f.source.data() + f.source.size())
        t.nth(&view, Tell::at(&view, 0) == view.data() ? 0 : 1);
}

static void tell_expr(const Tell &t, const ExprPtr &p, const Function &f)
{
    t.unique(p);
    if (!p)
        return;
    const Expr &e = *p;
    if (auto *text = std::get_if<Text>(&e.node))
        t.string(text->value);
    if (auto *name = std::get_if<Name>(&e.node)) {
        tell_view(t, name->text, f);
        t.word(&name->symbol);
    }
    if (auto *binary = std::get_if<Binary>(&e.node)) {
        tell_expr(t, binary->left, f);
        tell_expr(t, binary->right, f);
    }
    if (auto *call = std::get_if<Call>(&e.node)) {
        tell_view(t, call->callee, f);
        t.vector(call->arguments);
        for (const auto &a : call->arguments)
            tell_expr(t, a, f);
        t.complete(call->arguments.data());
    }
    t.complete(p.get());
}

static void tell_body(const Tell &t, const std::vector<StmtPtr> &body, const Function &f)
{
    t.vector(body);
    for (const auto &s : body) {
        t.unique(s);
        if (auto *let = std::get_if<Let>(&s->node)) {
            t.word(&let->symbol);
            tell_expr(t, let->value, f);
        }
        if (auto *branch = std::get_if<If>(&s->node)) {
            tell_expr(t, branch->condition, f);
            t.unique(branch->scope);
            tell_scope(t, *branch->scope);
            t.complete(branch->scope.get());
            tell_body(t, branch->body, f);
        }
        if (auto *back = std::get_if<Return>(&s->node))
            tell_expr(t, back->value, f);
        if (auto *value = std::get_if<ExprPtr>(&s->node))
            tell_expr(t, *value, f);
        t.complete(s.get());
    }
    t.complete(body.data());
}

static void tell_function(const Tell &t, const Function *f)
{
    t.block(f);
    t.string(f->name);
    t.string(f->source);
    t.vector(f->parameters);
    tell_scope(t, f->scope);
    tell_body(t, f->body, *f);
    t.vector(f->reachable);
    if (f->comment)
        t.string(*f->comment);
    t.complete(f);
}

static void tell(void *)
{
    TELL_ROOT(g_functions);
    TELL_ROOT(g_symbols);
    TELL_ROOT(g_diagnostics);
    TELL_ROOT(g_names);

    Tell functions = Tell::owner("g_functions");
    functions.hash(g_functions);
    for (const auto &i : g_functions) {
        functions.hash_node(&i);
        functions.string(i.first);
        functions.word(&i.second);
        functions.complete(&i);
        tell_function(functions, i.second.get());
        /* Each has symbols in the index, and a symbol leads to its function. */
        tell_function(Tell::borrower("g_symbols"), i.second.get());
    }

    Tell symbols = Tell::owner("g_symbols");
    symbols.hash(g_symbols);
    for (const auto &i : g_symbols) {
        symbols.hash_node(&i);
        symbols.nth(&i.first, Tell::at(&i.first, 0) == i.first.data() ? 0 : 1);
        symbols.word(&i.second);
        symbols.complete(&i);
    }

    Tell diagnostics = Tell::owner("g_diagnostics");
    diagnostics.vector(g_diagnostics);
    for (const Diagnostic &d : g_diagnostics) {
        diagnostics.string(d.message);
        tell_view(diagnostics, d.where, *d.function);
        diagnostics.word(&d.function);
    }
    for (const auto &i : g_functions)
        for (const Diagnostic &d : g_diagnostics)
            if (d.function == i.second.get()) {
                tell_function(Tell::borrower("g_diagnostics"), d.function);
                break;
            }

    Tell names = Tell::owner("g_names");
    names.vector(g_names);
    for (const auto &name : g_names)
        names.string(name);
}

int main(int argc, char **argv)
{
    churn();
    truth_rest(argc, argv, tell, nullptr);
}
