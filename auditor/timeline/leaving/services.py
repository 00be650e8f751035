"""Libraries that reach outside of the process, as a table: by what their clients are made, and what asks the service.

Facts: each library's own documentation of the calls that talk to its service. What only prepares something, or reads
what is there, is left out.
"""

from __future__ import annotations

from typing import NamedTuple

HTTP = "an HTTP request"
MAIL = "a mail"
PROCESS = "another program"
SLEEP = "a sleep"
QUEUE = "a message queue"
CLOUD = "a remote service"
RECEIVER = "whoever the job is sent to"
JOB = "what the job asks for"


class Library(NamedTuple):
    """`calls` are callables by dotted name; `methods` are what is called on values that `makers` make, at any depth."""

    what: str
    calls: frozenset[str] = frozenset()
    makers: tuple[str, ...] = ()
    methods: frozenset[str] = frozenset()


def names(text: str) -> frozenset[str]:
    """The names that stand in a text, whatever blanks are between them."""
    return frozenset(text.split())


_VERBS = "get post put patch delete head options request"
#: What clients of remote services call their operations; each is a request.
_OPERATIONS = names(
    """
    create acreate retrieve modify update delete cancel confirm capture pay refund void_invoice finalize_invoice
    send_invoice list search parse stream edit generate generate_content generate_content_async embed_content
    count_tokens transcribe translate upload invite send fetch completion acompletion embedding aembedding
    """
)

LIBRARIES = (
    Library(
        HTTP,
        names(
            f"""
            {" ".join(f"requests.{verb} requests.api.{verb}" for verb in _VERBS.split())}
            {" ".join(f"httpx.{verb}" for verb in _VERBS.split())} httpx.stream
            {" ".join(f"niquests.{verb} curl_cffi.requests.{verb}" for verb in _VERBS.split())}
            urllib.request.urlopen urllib.request.urlretrieve urllib3.request aiohttp.request pywebpush.webpush
            """
        ),
        (
            "requests.Session",
            "requests.session",
            "requests.sessions.Session",
            "httpx.Client",
            "httpx.AsyncClient",
            "aiohttp.ClientSession",
            "aiohttp.client.ClientSession",
            "urllib3.PoolManager",
            "http.client.HTTPConnection",
            "http.client.HTTPSConnection",
            "requests_oauthlib.OAuth2Session",
            "authlib.integrations.httpx_client.AsyncOAuth2Client",
            "niquests.Session",
            "niquests.AsyncSession",
            "curl_cffi.requests.Session",
            "curl_cffi.requests.AsyncSession",
            "httplib2.Http",
            "tornado.httpclient.AsyncHTTPClient",
        ),
        names(f"{_VERBS} send stream urlopen getresponse ws_connect fetch"),
    ),
    Library(
        MAIL,
        names(
            """
            aiosmtplib.send django.core.mail.send_mail django.core.mail.send_mass_mail django.core.mail.mail_admins
            django.core.mail.mail_managers
            """
        ),
        (
            "smtplib.SMTP",
            "smtplib.SMTP_SSL",
            "aiosmtplib.SMTP",
            "django.core.mail.EmailMessage",
            "django.core.mail.EmailMultiAlternatives",
            "django.core.mail.message.EmailMessage",
            "django.core.mail.message.EmailMultiAlternatives",
            "django.core.mail.get_connection",
            "django.core.mail.backends.smtp.EmailBackend",
            "flask_mail.Mail",
            "fastapi_mail.FastMail",
            "sendgrid.SendGridAPIClient",
            "resend.Emails",
            "postmarker.core.PostmarkClient",
            "mailjet_rest.Client",
        ),
        names("send_message send_messages sendmail login starttls connect open send"),
    ),
    Library(
        PROCESS,
        names(
            """
            subprocess.run subprocess.call subprocess.check_call subprocess.check_output subprocess.getoutput
            subprocess.getstatusoutput subprocess.Popen os.system os.popen asyncio.create_subprocess_exec
            asyncio.create_subprocess_shell
            """
        ),
        ("subprocess.Popen", "asyncio.create_subprocess_exec", "asyncio.create_subprocess_shell"),
        names("wait communicate"),
    ),
    Library(
        PROCESS,
        makers=(
            "paramiko.SSHClient",
            "fabric.Connection",
            "asyncssh.connect",
            "docker.from_env",
            "docker.DockerClient",
        ),
        methods=names("exec_command run sudo create_process exec_run"),
    ),
    Library(SLEEP, names("time.sleep asyncio.sleep anyio.sleep trio.sleep gevent.sleep eventlet.sleep")),
    Library(
        QUEUE,
        makers=(
            "redis.Redis",
            "redis.StrictRedis",
            "redis.from_url",
            "redis.client.Redis",
            "redis.asyncio.Redis",
            "redis.asyncio.StrictRedis",
            "redis.asyncio.from_url",
            "redis.asyncio.client.Redis",
            "aioredis.Redis",
            "aioredis.from_url",
        ),
        methods=names("publish xadd lpush rpush blpop brpop blmove brpoplpush xread xreadgroup"),
    ),
    Library(
        QUEUE,
        makers=(
            "pika.BlockingConnection",
            "pika.adapters.blocking_connection.BlockingChannel",
            "pika.channel.Channel",
            "aio_pika.connect",
            "aio_pika.connect_robust",
            "aio_pika.Connection",
            "aio_pika.RobustConnection",
            "aio_pika.Exchange",
            "aio_pika.Channel",
            "aio_pika.abc.AbstractExchange",
            "aio_pika.abc.AbstractChannel",
            "kombu.Producer",
            "kombu.Connection",
            "kombu.pools.producers",
            "kafka.KafkaProducer",
            "confluent_kafka.Producer",
            "confluent_kafka.SerializingProducer",
            "aiokafka.AIOKafkaProducer",
            "nats.connect",
            "nats.NATS",
            "nats.aio.client.Client",
            "nats.js.JetStreamContext",
            "nats.js.client.JetStreamContext",
            "google.cloud.pubsub_v1.PublisherClient",
            "google.cloud.tasks_v2.CloudTasksClient",
            "azure.eventhub.EventHubProducerClient",
            "azure.eventhub.aio.EventHubProducerClient",
            "pulsar.Client",
            "azure.servicebus.ServiceBusClient",
            "azure.servicebus.ServiceBusSender",
            "azure.servicebus.aio.ServiceBusClient",
            "paho.mqtt.client.Client",
            "rq.Queue",
            "arq.create_pool",
            "arq.ArqRedis",
            "arq.connections.ArqRedis",
            "celery.Celery",
            "stomp.Connection",
            "stomp.Connection11",
            "stomp.Connection12",
            "stomp.StompConnection11",
            "stomp.StompConnection12",
            "faktory.connection",
            "faktory.Client",
        ),
        methods=names(
            """
            basic_publish publish produce send send_and_wait flush request send_messages enqueue enqueue_call enqueue_in
            enqueue_at enqueue_job send_task push push_bulk send_batch create_task
            """
        ),
    ),
    Library(
        QUEUE,
        makers=("zmq.Context", "zmq.asyncio.Context", "zmq.Socket", "zmq.asyncio.Socket"),
        methods=names("send recv send_json recv_json send_string recv_string send_multipart recv_multipart"),
    ),
    Library(
        CLOUD,
        makers=("boto3.client", "boto3.resource", "boto3.Session", "boto3.session.Session", "aioboto3.Session"),
        methods=names(
            """
            publish send_message send_message_batch send_email send_raw_email send_bulk_email put_object get_object
            upload_file upload_fileobj download_file download_fileobj copy_object delete_object delete_objects
            head_object list_objects_v2 invoke start_execution put_events put_record put_records put_item get_item
            update_item
            delete_item query scan invoke_model invoke_model_with_response_stream converse receive_message start_job_run
            run_task submit_job get_secret_value encrypt decrypt put put_metric_data
            """
        ),
    ),
    Library(
        CLOUD,
        names("litellm.completion litellm.acompletion litellm.embedding litellm.aembedding"),
        (
            "stripe",
            "openai.OpenAI",
            "openai.AsyncOpenAI",
            "openai.AzureOpenAI",
            "openai.AsyncAzureOpenAI",
            "anthropic.Anthropic",
            "anthropic.AsyncAnthropic",
            "google.genai.Client",
            "google.generativeai.GenerativeModel",
            "mistralai.Mistral",
            "cohere.Client",
            "twilio.rest.Client",
            "braintree.BraintreeGateway",
        ),
        _OPERATIONS,
    ),
    Library(
        CLOUD,
        names(
            "firebase_admin.messaging.send firebase_admin.messaging.send_each firebase_admin.messaging.send_multicast"
        ),
        (
            "elasticsearch.Elasticsearch",
            "elasticsearch.AsyncElasticsearch",
            "opensearchpy.OpenSearch",
            "opensearchpy.AsyncOpenSearch",
            "google.cloud.storage.Client",
            "azure.storage.blob.BlobServiceClient",
            "azure.storage.blob.aio.BlobServiceClient",
            "minio.Minio",
            "qdrant_client.QdrantClient",
            "qdrant_client.AsyncQdrantClient",
            "algoliasearch.search_client.SearchClient",
        ),
        names(
            """
            index bulk search update_by_query delete_by_query upload_from_string upload_from_file upload_from_filename
            download_as_bytes download_as_text download_to_filename upload_blob download_blob put_object fput_object
            get_object fget_object upsert query_points save_objects
            """
        ),
    ),
    Library(
        CLOUD,
        makers=("slack_sdk.WebClient", "slack_sdk.web.async_client.AsyncWebClient", "slack_sdk.WebhookClient"),
        methods=names("chat_postMessage chat_update chat_delete files_upload_v2 api_call send conversations_open"),
    ),
)
