// json_dom.cc - documents of JSON as trees of values: loaded, edited, copied, written, dropped.
#include "truth_std.h"

namespace json
{

struct Value;
using Array = std::vector<Value>;
using Object = std::map<std::string, Value>;

struct Value {
    std::variant<std::monostate, bool, double, std::string, Array, std::unique_ptr<Object>> is;

    Value() = default;
    template <class T> Value(T value) : is(std::move(value))
    {
    }
    Value(Value &&) = default;
    Value &operator=(Value &&) = default;
    Value(const Value &other)
    {
        *this = other;
    }
    Value &operator=(const Value &other)
    {
        if (auto object = std::get_if<std::unique_ptr<Object>>(&other.is))
            is = std::make_unique<Object>(**object);
        else
            std::visit(
                [this](const auto &value) {
                    if constexpr (std::is_copy_assignable_v<std::decay_t<decltype(value)>>)
                        is = value;
                },
                other.is);
        return *this;
    }
    void tell(const truth_holders &by) const
    {
        truth_tell(is, by);
    }
};

std::map<std::string, Value> documents;
Value settings;
std::deque<std::pair<std::string, Value>> undo; // what it was before a change

Value random_value(int depth)
{
    switch (truth_random(depth > 0 ? 8 : 5)) {
    case 0:
        return double(truth_random(1000)) / 8;
    case 1:
        return truth_random(2) == 0;
    case 2:
        return std::string(truth_random(60), 'v');
    case 3:
        return "id-" + std::to_string(truth_random(100000));
    case 4:
        return {};
    case 5: {
        Array array;
        for (uint64_t n = truth_random(7); n > 0; n--)
            array.push_back(random_value(depth - 1));
        return array;
    }
    default: {
        static const char *const keys[] = {
            "name",  "id",   "children",    "a-rather-long-name-of-a-key",
            "price", "tags", "description", "attributes-of-this"};
        auto object = std::make_unique<Object>();
        for (uint64_t n = truth_random(6); n > 0; n--)
            (*object)[keys[truth_random(8)]] = random_value(depth - 1);
        return object;
    }
    }
}

// Somewhere within.
Value &random_place(Value &root)
{
    Value *at = &root;
    for (uint64_t depth = truth_random(6); depth > 0; depth--) {
        if (auto array = std::get_if<Array>(&at->is); array && !array->empty())
            at = &(*array)[truth_random(array->size())];
        else if (auto object = std::get_if<std::unique_ptr<Object>>(&at->is);
                 object && !(*object)->empty())
            at = &std::next((*object)->begin(), long(truth_random((*object)->size())))->second;
    }
    return *at;
}

void write(const Value &value, std::string &out)
{
    if (auto text = std::get_if<std::string>(&value.is))
        out += '"' + *text + '"';
    else if (auto array = std::get_if<Array>(&value.is))
        for (const Value &item : *array)
            write(item, out);
    else if (auto object = std::get_if<std::unique_ptr<Object>>(&value.is))
        for (const auto &[key, item] : **object) {
            out += key + ":";
            write(item, out);
        }
}

void edit(const std::string &name)
{
    Value &document = documents[name];
    if (std::holds_alternative<std::monostate>(document.is)) {
        document = random_value(6);
        return;
    }
    switch (truth_random(10)) {
    case 0:
        documents.erase(name);
        break;
    case 1:
        undo.emplace_back(name, document);
        if (undo.size() > 1000)
            undo.pop_front();
        break;
    case 2:
        if (!undo.empty()) {
            documents[undo.back().first] = std::move(undo.back().second);
            undo.pop_back();
        }
        break;
    case 3: {
        std::string out;
        write(document, out);
        break;
    }
    case 4: {
        Value copy = random_place(document);
        random_place(settings) = std::move(copy);
        if (truth_random(40) == 0)
            settings = random_value(7);
        break;
    }
    default:
        random_place(document) = random_value(int(truth_random(4)));
    }
}

void tell(void *)
{
    truth_root("documents", &documents, sizeof documents);
    truth_root("settings", &settings, sizeof settings);
    truth_root("undo", &undo, sizeof undo);
    truth_tell(documents, {{"documents"}, {}});
    truth_tell(settings, {{"settings"}, {}});
    truth_tell(undo, {{"undo"}, {}});
}

} // namespace json

int main(int argc, char **argv)
{
    for (int i = 0; i < 300000; i++)
        json::edit("document " + std::to_string(truth_random(9000)));
    truth_rest(argc, argv, json::tell, nullptr);
}
