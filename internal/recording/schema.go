package recording

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
)

// object is a JSON schema.
type object map[string]any

var (
	numberType = reflect.TypeFor[closedloop.Number]()
	vectorType = reflect.TypeFor[closedloop.Vector]()
	nullable   = object{"type": []string{"number", "null"}}
)

// schemaOf is the JSON schema of a type: its fields, those without omitempty required.
func schemaOf(t reflect.Type) object {
	switch {
	case t == numberType:
		return nullable
	case t == vectorType:
		return object{"type": "array", "items": nullable}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem())
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Slice:
		return object{"type": "array", "items": schemaOf(t.Elem())}
	case reflect.Struct:
		properties, required := object{}, []string{}
		for i := range t.NumField() {
			f := t.Field(i)
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			properties[name] = schemaOf(f.Type)
			if !strings.Contains(options, "omitempty") {
				required = append(required, name)
			}
		}
		return object{"type": "object", "properties": properties, "required": required}
	}
	return object{"type": "integer"}
}

// titled is a schema under the name that viewers know.
func titled(name string, s object) ([]byte, error) {
	s["title"] = name
	return json.Marshal(s)
}

// named is the schema of a message with a number for each variable.
func named(variables []domain.Variable) object {
	properties := object{}
	for _, v := range variables {
		p := object{"type": nullable["type"]}
		if v.Unit != "" {
			p["description"] = v.Unit
		}
		properties[v.Name] = p
	}
	return object{"type": "object", "properties": properties}
}
