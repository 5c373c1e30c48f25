#!/bin/bash
# What a pod of Spark runs: `driver`, or `executor` with what Spark on Kubernetes puts into its environment. Any other
# command, such as `motet run ...`, is run as it is.
set -eu

# Options for Java that Spark numbers: SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, ...
list_java_options() {
  local at=0 name
  name="SPARK_JAVA_OPT_$at"
  while [ -n "${!name+set}" ]; do
    printf '%s\n' "${!name}"
    at=$((at + 1))
    name="SPARK_JAVA_OPT_$at"
  done
}

case "${1:-}" in
  driver)
    shift
    exec "$SPARK_HOME/bin/spark-submit" --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" --deploy-mode client "$@"
    ;;
  executor)
    mapfile -t options < <(list_java_options)
    exec java "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
      -cp "${SPARK_CLASSPATH:+$SPARK_CLASSPATH:}$SPARK_HOME/jars/*${SPARK_EXTRA_CLASSPATH:+:$SPARK_EXTRA_CLASSPATH}" \
      org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
      --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
      --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
      --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
  *)
    exec "$@"
    ;;
esac
