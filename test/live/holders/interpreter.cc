// interpreter.cc - a small Lisp: interned names, functions as trees, values that are counted,
// environments that closures keep. Definitions change while it runs.
#include "truth_std.h"

namespace lisp
{

struct Symbol {
    using truth_lent = void;
    std::string name;
    uint64_t uses = 0;
    void tell(const truth_holders &by) const
    {
        truth_tell(name, by);
    }
};

struct Pair;
struct Closure;
struct Env;
struct Node;
using Value = std::variant<std::monostate, double, std::shared_ptr<std::string>,
                           std::shared_ptr<Pair>, std::shared_ptr<Closure>>;

// Lists never lead back to themselves, and what was told for one holder is not told again.
struct Pair {
    Value head;
    Value tail;
    ~Pair(); // long lists are not freed by recursion
    void tell(const truth_holders &by) const
    {
        truth_tell(by, head, tail);
    }
};

Pair::~Pair()
{
    while (auto next = std::get_if<std::shared_ptr<Pair>>(&tail)) {
        if (!*next || next->use_count() > 1)
            break;
        Value rest = std::move((*next)->tail);
        tail = std::move(rest);
    }
}

struct Env {
    std::shared_ptr<Env> up;
    std::map<const Symbol *, Value> values;
    void tell(const truth_holders &by) const;
};

struct Closure {
    std::shared_ptr<const Node> body;
    std::vector<Symbol *> parameters;
    std::shared_ptr<Env> env;
    void tell(const truth_holders &by) const
    {
        truth_tell(by, body, parameters, env);
    }
};

struct Node {
    virtual ~Node() = default;
    virtual Value run(const std::shared_ptr<Env> &env, int depth) const = 0;
    virtual void tell(const truth_holders &by) const = 0;
};
using Code = std::unique_ptr<Node>;

std::unordered_map<std::string_view, std::unique_ptr<Symbol>> symbols;
std::unordered_map<const Symbol *, Value> globals;
std::deque<Value> history; // of the last results
std::vector<std::string> sources;

void Env::tell(const truth_holders &by) const
{
    truth_tell(by, up, values);
}

Symbol *intern(const std::string &name)
{
    auto found = symbols.find(name);
    if (found == symbols.end()) {
        auto symbol = std::make_unique<Symbol>();
        symbol->name = name;
        std::string_view key = symbol->name;
        found = symbols.emplace(key, std::move(symbol)).first;
    }
    found->second->uses++;
    return found->second.get();
}

struct Constant : Node {
    Value value;
    Constant(Value of) : value(std::move(of))
    {
    }
    Value run(const std::shared_ptr<Env> &, int) const override
    {
        return value;
    }
    void tell(const truth_holders &by) const override
    {
        truth_tell(value, by);
    }
};

struct Variable : Node {
    Symbol *name;
    Variable(Symbol *of) : name(of)
    {
    }
    Value run(const std::shared_ptr<Env> &env, int) const override
    {
        for (Env *at = env.get(); at; at = at->up.get())
            if (auto found = at->values.find(name); found != at->values.end())
                return found->second;
        auto global = globals.find(name);
        return global == globals.end() ? Value() : global->second;
    }
    void tell(const truth_holders &by) const override
    {
        truth_tell(name, by);
    }
};

struct Call : Node {
    Symbol *function;
    std::vector<Code> arguments;
    Value run(const std::shared_ptr<Env> &env, int depth) const override;
    void tell(const truth_holders &by) const override
    {
        truth_tell(by, function, arguments);
    }
};

struct If : Node {
    Code condition, then, otherwise;
    Value run(const std::shared_ptr<Env> &env, int depth) const override
    {
        Value is = condition->run(env, depth);
        return (is.index() ? then : otherwise)->run(env, depth);
    }
    void tell(const truth_holders &by) const override
    {
        truth_tell(by, condition, then, otherwise);
    }
};

struct Lambda : Node {
    std::vector<Symbol *> parameters;
    std::shared_ptr<const Node> body;
    Value run(const std::shared_ptr<Env> &env, int) const override
    {
        return std::make_shared<Closure>(Closure{body, parameters, env});
    }
    void tell(const truth_holders &by) const override
    {
        truth_tell(by, parameters, body);
    }
};

Value apply(const Value &function, std::vector<Value> arguments, int depth)
{
    auto closure = std::get_if<std::shared_ptr<Closure>>(&function);
    if (!closure || depth > 12)
        return arguments.empty() ? Value() : arguments[0];
    auto env = std::make_shared<Env>();
    env->up = (*closure)->env;
    for (size_t i = 0; i < (*closure)->parameters.size() && i < arguments.size(); i++)
        env->values[(*closure)->parameters[i]] = std::move(arguments[i]);
    return (*closure)->body->run(env, depth + 1);
}

Value Call::run(const std::shared_ptr<Env> &env, int depth) const
{
    std::vector<Value> values;
    for (const Code &argument : arguments)
        values.push_back(argument->run(env, depth));
    if (function->name == "cons" && values.size() > 1)
        return std::make_shared<Pair>(Pair{values[0], values[1]});
    if (function->name == "text" && !values.empty())
        return std::make_shared<std::string>("the text of value " +
                                             std::to_string(values[0].index()));
    return apply(Variable(function).run(env, depth), std::move(values), depth);
}

Symbol *random_name(const char *kind, uint64_t n)
{
    return intern(std::string(kind) + std::to_string(truth_random(n)));
}

Code random_code(int depth)
{
    switch (truth_random(depth > 0 ? 8 : 3)) {
    case 0:
        return std::make_unique<Constant>(double(truth_random(100)));
    case 1:
        return std::make_unique<Constant>(
            std::make_shared<std::string>("constant text " + std::to_string(truth_random(10000))));
    case 2:
    case 3:
        return std::make_unique<Variable>(
            random_name(truth_random(3) ? "argument" : "local-variable-", 12));
    case 4: {
        auto code = std::make_unique<If>();
        code->condition = random_code(depth - 1);
        code->then = random_code(depth - 1);
        code->otherwise = random_code(depth - 1);
        return code;
    }
    case 5: {
        auto code = std::make_unique<Lambda>();
        code->parameters.push_back(random_name("argument", 12));
        code->body = random_code(depth - 1);
        return code;
    }
    default: {
        auto code = std::make_unique<Call>();
        uint64_t which = truth_random(4);
        code->function = which == 0   ? intern("cons")
                         : which == 1 ? intern("text")
                                      : random_name("function-", 4000);
        for (uint64_t n = 1 + truth_random(3); n > 0; n--)
            code->arguments.push_back(random_code(depth - 1));
        return code;
    }
    }
}

size_t depth_of(const Value &value, size_t limit)
{
    size_t depth = 0;
    for (const Value *at = &value; depth < limit; depth++)
        if (auto pair = std::get_if<std::shared_ptr<Pair>>(at); pair && *pair)
            at = &(*pair)->tail;
        else
            break;
    return depth;
}

void step()
{
    switch (truth_random(10)) {
    case 0: { // a definition, or another one
        auto closure = std::make_shared<Closure>();
        closure->body = random_code(5);
        for (uint64_t n = truth_random(4); n > 0; n--)
            closure->parameters.push_back(random_name("argument", 12));
        Symbol *name = random_name("function-", 4000);
        globals[name] = closure;
        sources.push_back("(define " + name->name + " ...)");
        if (sources.size() > 4000)
            sources.erase(sources.begin(), sources.begin() + 1000);
        break;
    }
    case 1: { // a list grows, or begins anew
        Symbol *name = random_name("a-list-of-", 300);
        Value &list = globals[name];
        if (depth_of(list, 40) < 40)
            list = std::make_shared<Pair>(Pair{double(truth_random(1000)), std::move(list)});
        else
            list = Value();
        break;
    }
    case 2:
        globals.erase(random_name("function-", 4000));
        break;
    default: {
        auto function = globals.find(random_name("function-", 4000));
        if (function == globals.end())
            break;
        // Arguments are plain, so that no closure can ever be reached from itself.
        Value called = function->second;
        Value result =
            apply(called, {double(truth_random(10)), std::make_shared<std::string>("argument")}, 0);
        history.push_back(std::move(result));
        if (history.size() > 2000)
            history.pop_front();
    }
    }
}

void tell(void *)
{
    TRUTH_ROOT(symbols);
    TRUTH_ROOT(globals);
    TRUTH_ROOT(history);
    TRUTH_ROOT(sources);
    truth_tell(symbols, {{"symbols"}, {}});
    truth_tell(globals, {{"globals"}, {}});
    truth_tell(history, {{"history"}, {}});
    truth_tell(sources, {{"sources"}, {}});
}

} // namespace lisp

int main(int argc, char **argv)
{
    for (int i = 0; i < 300000; i++)
        lisp::step();
    truth_rest(argc, argv, lisp::tell, nullptr);
}
