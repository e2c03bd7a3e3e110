// Sonobuoy's own code on a plugin and its results. The arguments are a folder with the plugin's
// definition, a folder of results as Sonobuoy keeps them, and a kubeconfig. It loads the plugin,
// has the driver create its DaemonSet, and prints what the results are made of.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/vmware-tanzu/sonobuoy/pkg/backplane/ca"
	"github.com/vmware-tanzu/sonobuoy/pkg/client/results"
	"github.com/vmware-tanzu/sonobuoy/pkg/plugin"
	"github.com/vmware-tanzu/sonobuoy/pkg/plugin/loader"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	loaded, err := loader.LoadAllPlugins("default", "sonobuoy:test", "Never", "", nil, os.Args[1:2], nil)
	check(err)
	one := loaded[0]
	if len(os.Args) > 3 {
		create(one, os.Args[3])
	}
	item, problems := results.PostProcessPlugin(one, os.Args[2])
	for _, problem := range problems {
		check(problem)
	}
	check(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"plugin": one.GetName(), "driver": fmt.Sprintf("%T", one), "results": item,
	}))
}

func create(one plugin.Interface, kubeconfig string) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	check(err)
	client, err := kubernetes.NewForConfig(config)
	check(err)
	issuer, err := ca.NewAuthority()
	check(err)
	certificate, err := issuer.ClientKeyPair("pinproof")
	check(err)
	pod, err := client.CoreV1().Pods("default").Create(context.TODO(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "sonobuoy"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}},
	}, metav1.CreateOptions{})
	check(err)
	check(one.Run(client, "aggregator", certificate, pod, "8099", plugin.ResultsDir))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
