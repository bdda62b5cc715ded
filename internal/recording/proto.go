package recording

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/gpc-engine/gpc/domain"
)

// A struct is a message: the tag of a field is its number and its name. Lists are of messages.

// field is one of a message.
type field struct {
	number int32
	name   string
	elem   reflect.Type // of an entry, of a list
	list   bool
}

// fieldsOf are those of a struct, in its order.
func fieldsOf(t reflect.Type) (all []field) {
	for i := range t.NumField() {
		number, name, _ := strings.Cut(t.Field(i).Tag.Get("pb"), ",")
		n, err := strconv.Atoi(number)
		if err != nil {
			panic(fmt.Sprintf("recording: field %s of %v has no number", t.Field(i).Name, t))
		}
		f := field{number: int32(n), name: name, elem: t.Field(i).Type}
		if f.elem.Kind() == reflect.Slice {
			f.elem, f.list = f.elem.Elem(), true
		}
		all = append(all, f)
	}
	return all
}

// appendMessage appends the fields of a struct, zeros too.
func appendMessage(b []byte, v reflect.Value) []byte {
	for i, f := range fieldsOf(v.Type()) {
		if !f.list {
			b = appendField(b, f.number, v.Field(i))
			continue
		}
		for k := range v.Field(i).Len() {
			b = appendField(b, f.number, v.Field(i).Index(k))
		}
	}
	return b
}

func appendField(b []byte, number int32, v reflect.Value) []byte {
	n := protowire.Number(number)
	switch v.Kind() {
	case reflect.Float64:
		return appendDouble(b, number, v.Float())
	case reflect.Bool:
		return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), protowire.EncodeBool(v.Bool()))
	case reflect.String:
		return protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), v.String())
	case reflect.Struct:
		return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), appendMessage(nil, v))
	}
	return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), uint64(v.Int()))
}

func appendDouble(b []byte, number int32, x float64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(b, protowire.Number(number), protowire.Fixed64Type), math.Float64bits(x))
}

// schema is what MCAP holds of a message's type: a file of its package and what that imports.
func schema(pkg, name string, messages ...*descriptorpb.DescriptorProto) ([]byte, error) {
	stamps, spans := protodesc.ToFileDescriptorProto(timestamppb.File_google_protobuf_timestamp_proto), protodesc.ToFileDescriptorProto(durationpb.File_google_protobuf_duration_proto)
	file := &descriptorpb.FileDescriptorProto{
		Name: proto.String(pkg + "/" + name + ".proto"), Package: proto.String(pkg), Syntax: proto.String("proto3"),
		Dependency: []string{stamps.GetName(), spans.GetName()}, MessageType: messages,
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{stamps, spans, file}})
}

// described are the descriptors of a struct and of all that it is made of.
func described(pkg string, t reflect.Type) (all []*descriptorpb.DescriptorProto) {
	visited := map[reflect.Type]bool{}
	var add func(t reflect.Type)
	add = func(t reflect.Type) {
		if visited[t] || wellKnown[t] != "" {
			return
		}
		visited[t] = true
		m := &descriptorpb.DescriptorProto{Name: proto.String(names[t])}
		all = append(all, m)
		for _, f := range fieldsOf(t) {
			d := &descriptorpb.FieldDescriptorProto{Name: proto.String(f.name), Number: proto.Int32(f.number), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
			if f.list {
				d.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
			}
			switch f.elem.Kind() {
			case reflect.Float64:
				d.Type = descriptorpb.FieldDescriptorProto_TYPE_DOUBLE.Enum()
			case reflect.Bool:
				d.Type = descriptorpb.FieldDescriptorProto_TYPE_BOOL.Enum()
			case reflect.String:
				d.Type = descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum()
			case reflect.Struct:
				d.Type = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum()
				if d.TypeName = proto.String(wellKnown[f.elem]); wellKnown[f.elem] == "" {
					d.TypeName = proto.String("." + pkg + "." + names[f.elem])
				}
				add(f.elem)
			default:
				d.Type = descriptorpb.FieldDescriptorProto_TYPE_INT64.Enum()
				if values := enums[f.elem]; values != nil {
					d.Type = descriptorpb.FieldDescriptorProto_TYPE_ENUM.Enum()
					d.TypeName = proto.String("." + pkg + "." + names[t] + ".Type")
					m.EnumType = append(m.EnumType, enumeration(values))
				}
			}
			m.Field = append(m.Field, d)
		}
	}
	add(t)
	return all
}

func enumeration(values []string) *descriptorpb.EnumDescriptorProto {
	e := &descriptorpb.EnumDescriptorProto{Name: proto.String("Type")}
	for i, name := range values {
		e.Value = append(e.Value, &descriptorpb.EnumValueDescriptorProto{Name: proto.String(name), Number: proto.Int32(int32(i))})
	}
	return e
}

// numbers is a message with a number for each variable of a list.
type numbers struct {
	name         string
	fields       []string          // names that a message can have
	descriptions map[string]string // by field, the variable and its unit
}

func numbersOf(name string, variables []domain.Variable) numbers {
	n := numbers{name: name, descriptions: map[string]string{}}
	for _, v := range variables {
		f := identifier(v.Name)
		for n.descriptions[f] != "" {
			f += "_"
		}
		n.fields = append(n.fields, f)
		n.descriptions[f] = strings.TrimSuffix(fmt.Sprintf("%s [%s]", v.Name, v.Unit), " []")
	}
	return n
}

// identifier is a name with underscores for what a field's name cannot have.
func identifier(name string) string {
	id := strings.Map(func(r rune) rune {
		if r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
	if id == "" || id[0] >= '0' && id[0] <= '9' {
		id = "_" + id
	}
	return id
}

// descriptor is that of the message.
func (n *numbers) descriptor() *descriptorpb.DescriptorProto {
	m := &descriptorpb.DescriptorProto{Name: proto.String(n.name)}
	for i, f := range n.fields {
		m.Field = append(m.Field, &descriptorpb.FieldDescriptorProto{
			Name: proto.String(f), Number: proto.Int32(int32(i + 1)),
			Type: descriptorpb.FieldDescriptorProto_TYPE_DOUBLE.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		})
	}
	return m
}

// message holds values for the leading variables, and NaN for the others.
func (n *numbers) message(values []float64) []byte {
	var b []byte
	for i := range n.fields {
		x := math.NaN()
		if i < len(values) {
			x = values[i]
		}
		b = appendDouble(b, int32(i+1), x)
	}
	return b
}
