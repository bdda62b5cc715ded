package serve_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/internal/testing/pages"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/paper"
	"github.com/gpc-engine/gpc/serve"
)

// document is an OpenAPI document, as JSON.
type document map[string]any

// at follows names into the document, and references.
func (d document) at(t testing.TB, names ...string) map[string]any {
	t.Helper()
	now := map[string]any(d)
	for _, name := range names {
		next, ok := now[name].(map[string]any)
		if !ok {
			t.Fatalf("the document has no %q in %q", name, names)
		}
		now = d.follow(t, next)
	}
	return now
}

func (d document) follow(t testing.TB, v map[string]any) map[string]any {
	t.Helper()
	ref, ok := v["$ref"].(string)
	if !ok {
		return v
	}
	return d.at(t, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
}

// differ says where a value is not of a schema: of the words of JSON Schema that the document uses.
func (d document) differ(t testing.TB, at string, schema map[string]any, v any) (wrong []string) {
	t.Helper()
	schema = d.follow(t, schema)
	for word, says := range schema {
		ok := true
		switch word {
		case "type":
			names, list := says.([]any)
			if !list {
				names = []any{says}
			}
			ok = slices.ContainsFunc(names, func(name any) bool { return isOf(name.(string), v) })
		case "const":
			ok = fmt.Sprint(says) == fmt.Sprint(v)
		case "enum":
			ok = slices.Contains(says.([]any), v)
		case "minimum":
			x, is := v.(float64)
			ok = !is || x >= says.(float64)
		case "maximum":
			x, is := v.(float64)
			ok = !is || x <= says.(float64)
		case "exclusiveMinimum":
			x, is := v.(float64)
			ok = !is || x > says.(float64)
		case "maxLength":
			x, is := v.(string)
			ok = !is || float64(len(x)) <= says.(float64)
		case "items":
			list, _ := v.([]any)
			for i, x := range list {
				wrong = append(wrong, d.differ(t, fmt.Sprintf("%s[%d]", at, i), says.(map[string]any), x)...)
			}
		case "required":
			fields, _ := v.(map[string]any)
			for _, name := range says.([]any) {
				if _, there := fields[name.(string)]; !there {
					wrong = append(wrong, fmt.Sprintf("%s lacks %s", at, name))
				}
			}
		case "properties", "additionalProperties": // together, below
		case "description":
		default:
			t.Fatalf("%s: this test does not know the word %s", at, word)
		}
		if !ok {
			wrong = append(wrong, fmt.Sprintf("%s is %v, want %s %v", at, v, word, says))
		}
	}
	fields, _ := v.(map[string]any)
	properties, _ := schema["properties"].(map[string]any)
	for name, x := range fields {
		if p, ok := properties[name].(map[string]any); ok {
			wrong = append(wrong, d.differ(t, at+"."+name, p, x)...)
		} else if p, ok := schema["additionalProperties"].(map[string]any); ok {
			wrong = append(wrong, d.differ(t, at+"."+name, p, x)...)
		} else if properties != nil {
			wrong = append(wrong, fmt.Sprintf("%s has %s", at, name))
		}
	}
	return wrong
}

func isOf(name string, v any) bool {
	switch x := v.(type) {
	case nil:
		return name == "null"
	case bool:
		return name == "boolean"
	case string:
		return name == "string"
	case float64:
		return name == "number" || name == "integer" && x == float64(int64(x))
	case []any:
		return name == "array"
	}
	return name == "object"
}

// keys are those of a schema and of the objects in it, as pages.KeysOf has them of a type.
func (d document) keys(t testing.TB, path string, schema map[string]any) (all []string) {
	schema = d.follow(t, schema)
	if items, ok := schema["items"].(map[string]any); ok && d.follow(t, items)["properties"] != nil {
		return d.keys(t, path+"[]", items)
	}
	properties, ok := schema["properties"].(map[string]any)
	if !ok {
		return []string{path}
	}
	for name, p := range properties {
		all = append(all, d.keys(t, strings.TrimPrefix(path+"."+name, "."), p.(map[string]any))...)
	}
	return all
}

// The document has the paths that are answered and their methods, its examples are requests that
// are answered as it says, with every field that there is, and its schemas have the keys of the
// answers.
func TestTheOpenAPIDocumentIsTheCode(t *testing.T) {
	cases := paper.Cases()
	c := require.Get(cases.Find("integrator-convex"))(t)
	s := require.Get(serve.New(c, cpu(t), serve.Options{Setup: require.Get(c.Setup("navigator", ""))(t)}))(t)
	defer s.Close()
	h := httptest.NewServer(serve.Handler(s, serve.HTTPOptions{}))
	defer h.Close()
	status, doc, _ := exchange(t, "GET", h.URL+"/openapi.json", "")
	if status != 200 || doc["openapi"] != "3.1.0" {
		t.Fatalf("%d %v", status, doc["openapi"])
	}
	d := document(doc)
	var paths []string
	for path := range d.at(t, "paths") {
		paths = append(paths, path)
		var methods []string
		for method := range d.at(t, "paths", path) {
			methods = append(methods, strings.ToUpper(method))
		}
		// Who asks by another method is told which there is.
		status, _, head := exchange(t, "DELETE", h.URL+path, "")
		if allow := head.Get("Allow"); status != 405 || len(methods) != 1 || allow != methods[0] {
			t.Errorf("%s: %d, allows %s, the document %v", path, status, allow, methods)
		}
	}
	// Operations of the core that are asked by a line are all asked over HTTP.
	for _, op := range []string{"decide", "refine", "front", "preference", "clear", "reset"} {
		if !slices.Contains(paths, "/v1/"+op) {
			t.Errorf("the document lacks /v1/%s", op)
		}
	}
	if line := said(t, s, serve.LineOptions{}, `{"op":"?"}`)[0]["error"]; !strings.Contains(fmt.Sprint(line), "decide, refine, front, preference, clear, reset, health") {
		t.Errorf("the operations of a line have changed: %v", line)
	}
	for _, path := range paths {
		matched := slices.ContainsFunc(serve.Paths, func(p string) bool { return p == path || strings.HasSuffix(p, "/") && strings.HasPrefix(path, p) })
		if !matched {
			t.Errorf("serve.Paths lacks %s", path)
		}
		of := d.at(t, "paths", path)
		post, ok := of["post"].(map[string]any)
		if !ok {
			continue
		}
		body := document(doc).at(t, "paths", path, "post", "requestBody", "content", "application/json")
		request, example := d.follow(t, body["schema"].(map[string]any)), body["example"].(map[string]any)
		for _, wrong := range d.differ(t, path+"'s example", request, example) {
			t.Error(wrong)
		}
		properties := request["properties"].(map[string]any)
		if !slices.Equal(slices.Sorted(maps.Keys(properties)), slices.Sorted(maps.Keys(example))) {
			t.Errorf("%s: the example has not the fields of the schema", path)
		}
		if path == "/v1/decide" {
			example["observed_ms"] = float64(time.Now().UnixMilli())
		}
		status, answer, _ := exchange(t, "POST", h.URL+path, string(require.Get(json.Marshal(example))(t)))
		if status != 200 {
			t.Errorf("%s: the example is answered %d %v", path, status, answer)
			continue
		}
		schema := d.at(t, "paths", path, "post", "responses", "200", "content", "application/json", "schema")
		for _, wrong := range d.differ(t, path, schema, answer) {
			t.Error(wrong)
		}
		// What is not documented is not accepted, and what is wrong is a Failure.
		example["undocumented"] = 1
		status, answer, _ = exchange(t, "POST", h.URL+path, string(require.Get(json.Marshal(example))(t)))
		if status != 400 || answer["field"] != "undocumented" {
			t.Errorf("%s with another field: %d %v", path, status, answer)
		}
		for _, wrong := range d.differ(t, path+" that fails", d.at(t, "paths", path, "post", "responses", "400", "content", "application/json", "schema"), answer) {
			t.Error(wrong)
		}
		for _, status := range []string{"413", "429", "503"} {
			if post["responses"].(map[string]any)[status] == nil {
				t.Errorf("%s: the document lacks %s", path, status)
			}
		}
	}
	for path, schema := range map[string]string{"/health": "Health", "/ready": "Ready"} {
		_, answer, _ := exchange(t, "GET", h.URL+path, "")
		for _, wrong := range d.differ(t, path, d.at(t, "components", "schemas", schema), answer) {
			t.Error(wrong)
		}
	}
	// The keys of every answer are those of the types.
	documented := map[string]bool{}
	for _, name := range []string{"Done", "Decision", "Refinement", "Front", "Health", "Failure"} {
		for _, key := range d.keys(t, "", d.at(t, "components", "schemas", name)) {
			documented[key] = true
		}
	}
	if got, want := slices.Sorted(maps.Keys(documented)), pages.KeysOf(serve.Answer{}); !slices.Equal(got, want) {
		t.Errorf("the document has the keys %v, answers have %v", got, want)
	}
	got, want := d.keys(t, "", d.at(t, "components", "schemas", "Event")), pages.KeysOf(serve.Event{})
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("the document has the keys %v of an event, events have %v", got, want)
	}
}
