// Checks the output of `helm template` with the types of Kubernetes' own API, and a compose file with compose's loader.
//
//	manifests kubernetes <rendered.yaml    checks that each document has a known kind and no unknown or repeated field
//	manifests settings <rendered.yaml      prints the settings of the hub
//	manifests names <rendered.yaml         checks that files of the settings are in volumes, and that named ports exist
//	manifests compose FILE                 checks that compose accepts the file
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

func main() {
	var err error
	switch {
	case len(os.Args) == 2 && os.Args[1] == "kubernetes":
		err = kubernetes(os.Stdin, func(_ runtime.Object, kind *schema.GroupVersionKind) {
			fmt.Println(kind.GroupVersion().String(), kind.Kind)
		})
	case len(os.Args) == 2 && os.Args[1] == "settings":
		err = kubernetes(os.Stdin, func(object runtime.Object, _ *schema.GroupVersionKind) {
			if found, is := object.(*core.ConfigMap); is {
				fmt.Print(found.Data["upesi.toml"])
			}
		})
	case len(os.Args) == 2 && os.Args[1] == "names":
		err = names(os.Stdin)
	case len(os.Args) == 3 && os.Args[1] == "compose":
		err = compose(os.Args[2])
	default:
		err = errors.New("usage: manifests kubernetes|settings|names <FILE, or manifests compose FILE")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "manifests:", err)
		os.Exit(1)
	}
}

// Fields that the API server would silently drop are errors here.
func kubernetes(input io.Reader, show func(runtime.Object, *schema.GroupVersionKind)) error {
	strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme.Scheme, scheme.Scheme,
		json.SerializerOptions{Yaml: true, Strict: true})
	documents := yaml.NewYAMLReader(bufio.NewReader(input))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if isEmpty(document) {
			continue
		}
		object, kind, err := strict.Decode(document, nil, nil)
		if err != nil {
			return fmt.Errorf("%w, in:\n%s", err, document)
		}
		show(object, kind)
	}
}

// Between two lines of dashes there may be only comments.
func isEmpty(document []byte) bool {
	for line := range bytes.Lines(document) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' {
			return false
		}
	}
	return true
}

func compose(file string) error {
	options, err := cli.NewProjectOptions([]string{file}, cli.WithOsEnv)
	if err != nil {
		return err
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		return err
	}
	for _, name := range project.ServiceNames() {
		fmt.Println("service", name)
	}
	return nil
}
